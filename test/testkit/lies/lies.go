// Package lies has answers that a hostile peer may give, for the proxies between a process and its servers.
package lies

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// A Kind of lie sends something in the place of an answer. n counts the lies before it.
type Kind struct {
	Name string
	tell func(a proxy.Answer, n int, send func([]byte) error) error
}

// Liar replaces one kind of answer by one kind of lie, and passes the others on.
type Liar struct {
	kind  Kind
	about func(proxy.Answer) bool
	count atomic.Int64
}

// About returns a liar who replaces the answers that are chosen.
func (k Kind) About(chosen func(proxy.Answer) bool) *Liar { return &Liar{kind: k, about: chosen} }

// Count is how many lies were sent.
func (l *Liar) Count() int { return int(l.count.Load()) }

// Lie is for proxy.LieWith.
func (l *Liar) Lie(a proxy.Answer, send func([]byte) error) error {
	if !l.about(a) {
		return send(a.Frame)
	}
	return l.kind.tell(a, int(l.count.Add(1))-1, send)
}

// WrongNumbers are lengths beyond the frame, negative ones, and varints that are too large or do not end.
var WrongNumbers = [][]byte{
	{0x7f, 0xff, 0xff, 0xff},
	{0x80, 0, 0, 0},
	{0xff, 0xff, 0xff, 0xfe},
	{0xff, 0xfe},
	{0x7f, 0xff},
	{0, 0},
	{0xff, 0xff, 0xff, 0xff, 0x0f},
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
}

// wrongNumber puts the n-th wrong number at the n-th place after the head.
func wrongNumber(frame []byte, head, n int) []byte {
	frame = bytes.Clone(frame)
	if places := len(frame) - head; places > 0 {
		copy(frame[head+n%places:], WrongNumbers[(n+n/places)%len(WrongNumbers)])
	}
	return frame
}

// zeros sends them until the connection ends.
func zeros(send func([]byte) error) error {
	for {
		if err := send(make([]byte, 32<<10)); err != nil {
			return err
		}
	}
}

// again sends an answer until the connection ends, many in a piece.
func again(frame []byte, send func([]byte) error) error {
	piece := bytes.Repeat(frame, max(1, (32<<10)/max(len(frame), 1)))
	for {
		if err := send(piece); err != nil {
			return err
		}
	}
}

func silence(a proxy.Answer) error {
	<-a.Ended
	return nil
}

// raw are lies about bytes, with the place of the frame's size, what it counts beyond the frame, and the head's length.
func raw(at, less, head int) []Kind {
	size := func(frame []byte, n uint32) []byte {
		frame = bytes.Clone(frame)
		binary.BigEndian.PutUint32(frame[at:], n)
		return frame
	}
	claims := func(name string, n uint32) Kind {
		return Kind{name, func(a proxy.Answer, _ int, send func([]byte) error) error {
			if err := send(size(a.Frame, n)); err != nil {
				return err
			}
			return zeros(send)
		}}
	}
	return []Kind{
		{"a wrong number", func(a proxy.Answer, n int, send func([]byte) error) error {
			return send(wrongNumber(a.Frame, head, n))
		}},
		{"cut short", func(a proxy.Answer, n int, send func([]byte) error) error {
			cut := a.Frame[:head+n%max(1, len(a.Frame)-head)]
			return send(size(cut, uint32(len(cut)-less)))
		}},
		{"silent midway", func(a proxy.Answer, _ int, send func([]byte) error) error {
			if err := send(a.Frame[:head+(len(a.Frame)-head)/2]); err != nil {
				return err
			}
			return silence(a)
		}},
		{"silence", func(a proxy.Answer, _ int, _ func([]byte) error) error { return silence(a) }},
		claims("2 GiB", 1<<31-1),
		claims("almost a GiB", 1<<30-100),
		{"63 MiB", func(a proxy.Answer, _ int, send func([]byte) error) error {
			n := 63 << 20
			if err := send(size(a.Frame, uint32(n-less))); err != nil {
				return err
			}
			return send(make([]byte, n-len(a.Frame)))
		}},
		{"less than nothing", func(a proxy.Answer, n int, send func([]byte) error) error {
			return send(size(a.Frame, []uint32{0, 3, 1 << 31, 1<<32 - 1}[n%4]))
		}},
		{"again and again", func(a proxy.Answer, _ int, send func([]byte) error) error {
			return again(a.Frame, send)
		}},
		{"noise", func(_ proxy.Answer, n int, send func([]byte) error) error {
			return again(WrongNumbers[n%len(WrongNumbers)], send)
		}},
	}
}
