package main

import (
	"context"
	wire "encoding/binary"
	"flag"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const referenceCommand = "reference"

// The shape of the napping reader, found by trying on loopback, 300,000 rows in transactions of ten, medians of three:
// a fixed buffer of 128 KiB (of which the kernel makes 256) and a nap of 10 ms 180 k rows/s, 15 ms 164 k, 5 ms 154 k,
// a buffer that the kernel sizes 93 k with 10 ms and 134 k with 15 ms, no nap 80 k. A buffer that grows takes what the
// walsender sends during the nap, so that its window never closes. A raised SO_RCVLOWAT brought nothing, because this
// socket is not the Go runtime's to poll. A drain ends when nothing waits: 158 k, against 93 k with an end at 16 KiB.
// Small buffers, TLS and small rows keep the queue below a mark that suits loopback.
const (
	referenceNap    = 10 * time.Millisecond
	referenceBuffer = 128 << 10
)

// reference reads rows from a slot and throws them away, without a line of the product: the limit that the walsender
// sets to every client. It empties the socket, sleeps, and empties it again. While it sleeps, the window closes and the
// walsender's sends only append to what the kernel has queued, which costs the walsender half the CPU of a send to a
// reader that waits for it. With -nap 0 it reads as fast as it can, into a buffer that the kernel sizes, which is what
// most clients do.
func reference(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(referenceCommand, flag.ContinueOnError)
	dsn := flags.String("dsn", "", "")
	slot := flags.String("slot", "", "")
	rows := flags.Int("rows", 0, "")
	nap := flags.Duration("nap", referenceNap, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := &referenceReader{nap: *nap, buf: make([]byte, 1<<20)}
	buffer := referenceBuffer
	if *nap == 0 {
		buffer = 0
	}
	if err := r.connect(ctx, *dsn, buffer); err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	defer r.conn.Close()
	if err := r.read(*slot, *rows); err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	return nil
}

// referenceReader is one replication connection.
type referenceReader struct {
	conn   net.Conn // TLS, or socket itself
	socket *socket
	nap    time.Duration

	buf        []byte
	have       int // bytes of buf that are read and not parsed
	rows       int
	last       uint64 // end of the WAL that has been received
	wantsReply bool
}

// connect lets pgconn log in over a socket that the Go runtime does not poll, and takes the connection over.
func (r *referenceReader) connect(ctx context.Context, dsn string, buffer int) error {
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["replication"] = "database"
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		r.socket, err = dialSocket(ctx, network, address, buffer)
		return r.socket, err
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	taken, err := conn.Hijack()
	if err == nil {
		r.conn = taken.Conn
	}
	return err
}

// read returns after the last row.
func (r *referenceReader) read(slot string, rows int) error {
	sql := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL 0/0 (proto_version '1', publication_names '%s')", slot,
		publication)
	if err := r.write('Q', append([]byte(sql), 0)); err != nil {
		return err
	}
	for r.rows < rows {
		n, err := r.conn.Read(r.buf[r.have:])
		if err != nil {
			return err
		}
		r.have += n
		if err := r.parse(); err != nil {
			return err
		}
		if r.wantsReply {
			if err := r.reply(); err != nil {
				return err
			}
		}
		if r.nap > 0 && r.socket.queued() == 0 {
			time.Sleep(r.nap)
		}
	}
	return nil
}

// parse takes the whole messages out of the buffer.
func (r *referenceReader) parse() error {
	at := 0
	for r.have-at >= 5 {
		size := 1 + int(wire.BigEndian.Uint32(r.buf[at+1:]))
		if r.have-at < size {
			if size > len(r.buf) {
				r.buf = append(r.buf, make([]byte, size)...)
			}
			break
		}
		if err := r.message(r.buf[at], r.buf[at+5:at+size]); err != nil {
			return err
		}
		at += size
	}
	copy(r.buf, r.buf[at:r.have])
	r.have -= at
	return nil
}

// message sees one message of the frontend/backend protocol. XLogData ('w') is three numbers of 8 bytes and a message
// of pgoutput, a keepalive ('k') two numbers and a byte that asks for a reply.
func (r *referenceReader) message(kind byte, body []byte) error {
	switch {
	case kind == 'E':
		return fmt.Errorf("the server reports %q", body)
	case kind != 'd' || len(body) < 18:
	case body[0] == 'w' && len(body) > 25:
		r.last = max(r.last, wire.BigEndian.Uint64(body[1:]))
		if body[25] == 'I' {
			r.rows++
		}
	case body[0] == 'k':
		r.wantsReply = r.wantsReply || body[17] == 1
	}
	return nil
}

// reply is a standby status update that confirms nothing: the next round reads the same log from a slot of its own.
func (r *referenceReader) reply() error {
	r.wantsReply = false
	body := make([]byte, 34)
	body[0] = 'r'
	wire.BigEndian.PutUint64(body[1:], r.last)
	return r.write('d', body)
}

func (r *referenceReader) write(kind byte, body []byte) error {
	m := wire.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	_, err := r.conn.Write(append(m, body...))
	return err
}
