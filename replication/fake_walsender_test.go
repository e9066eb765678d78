package replication

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// visit is how the fake walsender treats one connection.
type visit struct {
	refuse   []byte // an ErrorResponse instead of a login
	system   string // default "1"
	timeline string // default "1"
	walEnd   string // default "F/0"
	standby  bool
	slot     string   // a row of pg_replication_slots as JSON; default: a healthy one at 0/64; "none": no such slot
	start    []byte   // an ErrorResponse instead of a stream
	stream   []byte   // sent in one piece with CopyBothResponse
	pieces   [][]byte // sent one by one after that; then the connection is closed
}

// walsender is a fake server on the loopback, or in memory. It treats its nth connection by the nth visit, and later
// ones by the last.
type walsender struct {
	t      testing.TB
	ln     net.Listener // nil in memory
	memory *network.Network
	tls    *tls.Config // nil: plain connections only
	visits []visit
	wg     sync.WaitGroup

	mu      sync.Mutex
	started []string // the START_REPLICATION commands
}

func newWalsender(t testing.TB, visits ...visit) *walsender {
	free, err := port.Free() // nothing else listens there when it has ended
	require.NoError(t, err)
	ln, err := net.Listen("tcp", port.Addr(free))
	require.NoError(t, err)
	w := &walsender{t: t, ln: ln, visits: visits}
	w.wg.Go(w.serve)
	t.Cleanup(func() {
		_ = ln.Close()
		w.wg.Wait()
	})
	return w
}

// newVirtualWalsender is one in memory, for a synctest bubble: waiting between two connections takes no time.
func newVirtualWalsender(t testing.TB, visits ...visit) *walsender {
	w := &walsender{t: t, memory: network.New(1), visits: visits}
	visited := 0
	w.memory.Listen(virtualAddress, func(conn *network.Conn) {
		w.wg.Add(1)
		defer w.wg.Done()
		visited++ // one at a time: Run has one connection
		w.talk(conn, w.visits[min(visited, len(w.visits))-1])
		_ = conn.Close()
	})
	t.Cleanup(func() {
		synctest.Wait()
		w.wg.Wait()
	})
	return w
}

const virtualAddress = "192.0.2.1:5432"

// config streams from the fake; what was in refused messages about passwords must never be seen.
func (w *walsender) config(confirmed func() lsn.LSN) Config {
	address, dial := virtualAddress, (func(context.Context, string, string) (net.Conn, error))(nil)
	if w.memory != nil {
		dial = w.memory.Dialer("client")
	} else {
		address = w.ln.Addr().String()
	}
	return Config{
		DSN: func() (string, error) {
			return "postgres://u:s3cret-word@" + address + "/db?sslmode=disable", nil
		},
		Slot: "s", Publication: "p", Confirmed: confirmed, Dial: dial,
	}
}

func (w *walsender) serve() {
	for n := 0; ; n++ {
		conn, err := w.ln.Accept()
		if err != nil {
			return
		}
		w.talk(conn, w.visits[min(n, len(w.visits)-1)])
		_ = conn.Close()
	}
}

func (w *walsender) talk(conn net.Conn, v visit) {
	b := pgproto3.NewBackend(conn, conn)
	hello, err := b.ReceiveStartupMessage()
	if _, secure := hello.(*pgproto3.SSLRequest); secure && w.tls != nil {
		_, _ = conn.Write([]byte{'S'})
		conn = tls.Server(conn, w.tls)
		b = pgproto3.NewBackend(conn, conn)
		_, err = b.ReceiveStartupMessage()
	}
	if err != nil {
		return
	}
	if v.refuse != nil {
		_, _ = conn.Write(v.refuse)
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	for {
		msg, err := b.Receive()
		if err != nil {
			return
		}
		q, ok := msg.(*pgproto3.Query)
		if !ok {
			return
		}
		switch {
		case q.String == "IDENTIFY_SYSTEM":
			row(b, or(v.system, "1"), or(v.timeline, "1"), or(v.walEnd, "F/0"), "db")
		case strings.HasPrefix(q.String, "START_REPLICATION"):
			w.mu.Lock()
			w.started = append(w.started, q.String)
			w.mu.Unlock()
			if v.start != nil {
				_, _ = conn.Write(append(v.start, message('Z', 'I')...))
				continue
			}
			_, _ = conn.Write(append(message('W', 0, 0, 0), v.stream...))
			for _, m := range v.pieces {
				_, _ = conn.Write(m)
			}
			hangUp(conn)
			return
		default:
			slot := or(v.slot, `{"slot_name":"s","plugin":"pgoutput","slot_type":"logical","database":"db",`+
				`"confirmed_flush_lsn":"0/64","restart_lsn":"0/60","wal_status":"reserved"}`)
			row(b, "db", "160010", "60000", slot, "none", map[bool]string{true: "t", false: "f"}[v.standby], "1")
		}
	}
}

// hangUp ends the connection after all that was sent has arrived: closing it with something unread would throw away
// what is still in transit to the client.
func hangUp(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok { // in memory: what was sent arrives, and the next write is a second away
		_, _ = conn.Read(make([]byte, 1<<10))
		return
	}
	_ = half.CloseWrite()
	_, _ = io.Copy(io.Discard, conn)
}

func row(b *pgproto3.Backend, values ...string) {
	var data [][]byte
	var fields []pgproto3.FieldDescription
	for _, v := range values {
		fields = append(fields, pgproto3.FieldDescription{
			Name: []byte("c"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1,
		})
		if v == "none" {
			data = append(data, nil)
		} else {
			data = append(data, []byte(v))
		}
	}
	b.Send(&pgproto3.RowDescription{Fields: fields})
	b.Send(&pgproto3.DataRow{Values: data})
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	_ = b.Flush()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
