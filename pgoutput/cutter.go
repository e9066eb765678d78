package pgoutput

import (
	"encoding/binary"
	"math"
)

const (
	maxValue  = 64 << 10 // bytes of a value that the short form keeps
	maxPrefix = 1 << 10  // bytes of a logical message's prefix
	maxShort  = 1 << 20  // bytes of a short form, without the value at hand
)

// Cutter takes one message piece by piece, and keeps a short form of it, for messages that are too long to be held:
// values of more than 64 KiB, and the content of a logical message, are left out. A Decoder with Cut reads the short
// form, and finds these values to be of the kind Cut. The memory is that of the short form, about 1 MiB at most,
// whatever the message's length is. It judges nothing: a message that is broken is as broken in its short form.
type Cutter struct {
	out    []byte
	need   int  // bytes to keep before the next step
	leave  int  // bytes to leave out before the next step
	step   step // after these bytes; nil: all is known
	values int  // of the tuple, still to come
	again  bool // another tuple follows this one
	rest   bool // what is left is of no interest
}

type step func(*Cutter) step

// Reset begins a message.
func (c *Cutter) Reset() {
	*c = Cutter{out: c.out[:0], need: 1, step: (*Cutter).begin}
}

// Write takes the next piece.
func (c *Cutter) Write(p []byte) {
	for len(p) > 0 && !c.rest {
		switch {
		case c.leave > 0:
			k := min(c.leave, len(p))
			c.leave, p = c.leave-k, p[k:]
		case c.need > 0:
			k := min(c.need, len(p))
			c.out, c.need, p = append(c.out, p[:k]...), c.need-k, p[k:]
		default: // too many bytes: one of them is enough for the decoder to refuse the message
			c.out, c.rest = append(c.out, p[0]), true
		}
		for c.need == 0 && c.leave == 0 && c.step != nil {
			c.step = c.step(c)
		}
	}
}

// Short is the short form, valid until the next Reset. If the message has ended in a value, so does its short form.
func (c *Cutter) Short() []byte {
	if c.leave > 0 {
		return c.out[:len(c.out)-1]
	}
	return c.out
}

func (c *Cutter) begin() step {
	switch c.out[0] {
	case 'I', 'U', 'D':
		c.need = 4 + 1 // the relation, and the kind of the tuple
		return (*Cutter).tuple
	case 'M':
		c.need = 1 + 8 + 1 // flags, LSN, the prefix's first byte
		return (*Cutter).prefix
	}
	c.need = maxShort
	return nil
}

// tuple is at the kind of a tuple. The old row of an UPDATE is followed by the new one.
func (c *Cutter) tuple() step {
	c.again = c.out[0] == 'U' && c.out[len(c.out)-1] != 'N'
	c.need = 2
	return (*Cutter).count
}

func (c *Cutter) count() step {
	c.values = int(binary.BigEndian.Uint16(c.out[len(c.out)-2:]))
	return c.value()
}

// value is before a value, or at the end of the tuple.
func (c *Cutter) value() step {
	switch {
	case c.values > 0:
		c.values--
		c.need = 1
		return (*Cutter).kind
	case c.again:
		c.need = 1
		return (*Cutter).tuple
	}
	return nil
}

func (c *Cutter) kind() step {
	switch ValueKind(c.out[len(c.out)-1]) {
	case Null, Unchanged:
		return c.value()
	case Text, Binary:
		c.need = 4
		return (*Cutter).data
	}
	return nil
}

func (c *Cutter) data() step {
	at := len(c.out) - 4
	n := int(binary.BigEndian.Uint32(c.out[at:]))
	if n <= maxValue && len(c.out)+n <= maxShort {
		c.need = n
	} else {
		c.out[at-1], c.leave = byte(Cut), n
	}
	return (*Cutter).value
}

func (c *Cutter) prefix() step {
	switch {
	case c.out[len(c.out)-1] == 0:
		c.need = 4
		return (*Cutter).content
	case len(c.out) < maxPrefix:
		c.need = 1
		return (*Cutter).prefix
	}
	c.out, c.rest = append(c.out, 0), true // of another program: no prefix of a configuration is as long
	c.cutContent(0)
	return nil
}

func (c *Cutter) content() step {
	at := len(c.out) - 4
	c.leave = int(binary.BigEndian.Uint32(c.out[at:]))
	c.out = c.out[:at]
	c.cutContent(c.leave)
	return nil
}

// cutContent stands for a content: a length that no content has, and then its length.
func (c *Cutter) cutContent(n int) {
	c.out = binary.BigEndian.AppendUint32(c.out, math.MaxUint32)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(n))
}
