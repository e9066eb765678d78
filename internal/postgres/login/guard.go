// Package login bounds what a server may do before the login is through, when the process at the address is a stranger
// yet, and how much it may answer afterwards.
package login

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// MaxIterations bounds the work of a login by SCRAM, of which the server says how much there is. RFC 7677 asks for
	// at least 4,096, which is what PostgreSQL has (scram_iterations). A million takes about a second, and nothing ends
	// it meanwhile.
	MaxIterations = 1_000_000

	// maxBytes bounds what a server sends until it is ready: parameters, notices, a key. A few KiB are usual.
	maxBytes = 1 << 20

	// maxAnswer bounds what a server sends after a request, in sessions that ask for no rows of users' tables. pgx
	// collects results and notifications in several times as much memory.
	maxAnswer = 8 << 20

	// MaxMessage bounds each message of such a session, for which pgx makes room by its length. It is not a round
	// number, so that its error differs from an error about window.row.
	MaxMessage = maxAnswer - 1
)

// The types of the messages that are looked at (Postgres docs, "Message Formats").
const (
	readyForQuery  = 'Z'
	authentication = 'R'
	sasl           = 10
	saslContinue   = 11
	cleartext      = 3
	md5            = 5
)

// Guard bounds the logins of a configuration and of its copies, and the answers of their sessions.
func Guard(pc *pgconn.Config) { guard(pc, MaxMessage, false) }

// ReadsRows lifts the bounds of Guard for answers: of rows there may be any number.
func ReadsRows(pc *pgconn.Config) { guard(pc, 0, true) }

func guard(pc *pgconn.Config, message int, lifted bool) {
	pc.MaxProtocolMessageBodyLen = message
	pc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		l := Bounded(r, w)
		l.lifted = lifted
		return pgproto3.NewFrontend(l, l)
	}
}

// Bounded is the line of a connection that has just been opened. Its Read fails if the server goes beyond the bounds.
// It wraps no connection: pgconn looks for TLS there, for the channel binding.
func Bounded(r io.Reader, w io.Writer) *Line {
	l := &Line{r: r, w: w, open: unencrypted(w)}
	if prepare, ok := whenSASL.LoadAndDelete(w); ok {
		l.sasl = prepare.(func())
	}
	return l
}

// Line follows the messages from the server until it is ready for queries. After that it counts bytes.
type Line struct {
	r     io.Reader
	w     io.Writer
	open  string // the server's address, if others can read the connection
	sasl  func() // prepares the password for SCRAM; nil: it needs none
	total int
	ready bool
	head  []byte // the beginning of the message that has come in part
	skip  int    // bytes of a message that is not looked at

	lifted   bool
	answered atomic.Int64 // bytes since the last request; pgconn may write while its background reader reads
}

// Lift lifts the bound of answers. Nothing reads meanwhile.
func (l *Line) Lift() { l.lifted = true }

func (l *Line) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.ready && l.lifted || n == 0 {
		return n, err
	}
	var bad error
	if l.ready {
		bad = l.count(n)
	} else {
		bad = l.follow(p[:n])
	}
	if bad != nil {
		return 0, bad
	}
	return n, err
}

func (l *Line) Write(p []byte) (int, error) {
	l.answered.Store(0)
	return l.w.Write(p)
}

func (l *Line) count(n int) error {
	if l.answered.Add(int64(n)) > maxAnswer {
		return fmt.Errorf("the server has sent more than %d bytes without being asked again", maxAnswer)
	}
	return nil
}

func (l *Line) follow(b []byte) error {
	if l.total += len(b); l.total > maxBytes {
		return fmt.Errorf("the server has sent more than %d bytes before the login was through", maxBytes)
	}
	for len(b) > 0 && !l.ready {
		if l.skip > 0 {
			n := min(l.skip, len(b))
			l.skip, b = l.skip-n, b[n:]
			continue
		}
		const header = 5 // type, length
		want := header
		if len(l.head) >= header {
			want = 1 + int(binary.BigEndian.Uint32(l.head[1:]))
		}
		n := min(want-len(l.head), len(b))
		l.head, b = append(l.head, b[:n]...), b[n:]
		if len(l.head) < want {
			return nil
		}
		if err := l.message(); err != nil {
			return err
		}
	}
	return nil
}

// message looks at a message of which the header has come, or all.
func (l *Line) message() error {
	const header = 5
	length := int(binary.BigEndian.Uint32(l.head[1:]))
	switch kind := l.head[0]; {
	case length < 4 || length > maxBytes:
		return errors.New("this is not a Postgres server: a message before the login has no possible length")
	case kind == readyForQuery:
		l.ready = true
	case kind != authentication:
		l.skip = length - 4
	case len(l.head) == header && length > 4:
		return nil // the body is to come
	case len(l.head) >= header+4:
		method := binary.BigEndian.Uint32(l.head[header:])
		if method == saslContinue {
			if err := judgeIterations(l.head[header+4:]); err != nil {
				return err
			}
		}
		if method == sasl && l.sasl != nil {
			l.sasl()
		}
		l.report(method)
	}
	l.head = l.head[:0]
	return nil
}

// judgeIterations reads the number in the server's first message of SCRAM (RFC 5802, section 5.1).
func judgeIterations(challenge []byte) error {
	for attribute := range bytes.SplitSeq(challenge, []byte{','}) {
		count, isCount := bytes.CutPrefix(attribute, []byte("i="))
		if !isCount {
			continue
		}
		if n, err := strconv.Atoi(string(count)); err != nil || n < 1 || n > MaxIterations {
			return fmt.Errorf("the server asks for %.20q iterations of SCRAM, more than %d", count, MaxIterations)
		}
	}
	return nil
}
