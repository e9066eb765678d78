package proxy

import "io"

// Answer is a whole message of the server.
type Answer struct {
	Asked                 // of a Kafka request
	Type  byte            // of a message of Postgres
	Frame []byte          // with its head
	Ended <-chan struct{} // closed with the connection
}

// A Lie gets each answer of the server and sends what it likes instead, for as long as send has no error.
type Lie func(a Answer, send func([]byte) error) error

// LieWith hands the answers to lie from now on, on open connections too; nil: they pass as they are.
func (p *Proxy) LieWith(lie Lie) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lie = lie
}

func (p *Proxy) lies() Lie {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lie
}

// tell reads the rest of an answer and has it replaced.
func (c *conn) tell(lie Lie, a Answer, head []byte, rest int64, r io.Reader, emit func([]byte) error) error {
	a.Frame = append(make([]byte, 0, len(head)+int(rest)), head...)
	a.Frame = a.Frame[:len(head)+int(rest)]
	if _, err := io.ReadFull(r, a.Frame[len(head):]); err != nil {
		return err
	}
	a.Ended = c.done
	return lie(a, emit)
}
