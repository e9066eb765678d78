// Package login bounds what a server may do before the login is through. The process at the address is a stranger
// until then.
package login

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

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

// Guard bounds the logins of a configuration and of its copies.
func Guard(pc *pgconn.Config) {
	pc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(Bounded(r, w), w)
	}
}

// Bounded is the reader of a connection that has just been opened, whose writer is w. Its Read fails if the server goes
// beyond the bounds. It wraps no connection: pgconn looks for TLS there, for the channel binding.
func Bounded(r io.Reader, w io.Writer) io.Reader {
	g := &guarded{Reader: r, open: unencrypted(w)}
	if prepare, ok := whenSASL.LoadAndDelete(w); ok {
		g.sasl = prepare.(func())
	}
	return g
}

// guarded follows the messages from the server until it is ready for queries. After that it costs a comparison.
type guarded struct {
	io.Reader
	open  string // the server's address, if others can read the connection
	sasl  func() // prepares the password for SCRAM; nil: it needs none
	total int
	ready bool
	head  []byte // the beginning of the message that has come in part
	skip  int    // bytes of a message that is not looked at
}

func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if g.ready || n == 0 {
		return n, err
	}
	if bad := g.follow(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

func (g *guarded) follow(b []byte) error {
	if g.total += len(b); g.total > maxBytes {
		return fmt.Errorf("the server has sent more than %d bytes before the login was through", maxBytes)
	}
	for len(b) > 0 && !g.ready {
		if g.skip > 0 {
			n := min(g.skip, len(b))
			g.skip, b = g.skip-n, b[n:]
			continue
		}
		const header = 5 // type, length
		want := header
		if len(g.head) >= header {
			want = 1 + int(binary.BigEndian.Uint32(g.head[1:]))
		}
		n := min(want-len(g.head), len(b))
		g.head, b = append(g.head, b[:n]...), b[n:]
		if len(g.head) < want {
			return nil
		}
		if err := g.message(); err != nil {
			return err
		}
	}
	return nil
}

// message looks at a message of which the header has come, or all.
func (g *guarded) message() error {
	const header = 5
	length := int(binary.BigEndian.Uint32(g.head[1:]))
	switch kind := g.head[0]; {
	case length < 4 || length > maxBytes:
		return errors.New("this is not a Postgres server: a message before the login has no possible length")
	case kind == readyForQuery:
		g.ready = true
	case kind != authentication:
		g.skip = length - 4
	case len(g.head) == header && length > 4:
		return nil // the body is to come
	case len(g.head) >= header+4:
		method := binary.BigEndian.Uint32(g.head[header:])
		if method == saslContinue {
			if err := judgeIterations(g.head[header+4:]); err != nil {
				return err
			}
		}
		if method == sasl && g.sasl != nil {
			g.sasl()
		}
		g.report(method)
	}
	g.head = g.head[:0]
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
