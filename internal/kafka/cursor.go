package kafka

import "encoding/binary"

// cursor reads big-endian numbers and byte strings. Past the end everything is zero, and err says so.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) left() int { return len(c.b) }

func (c *cursor) err() error {
	if c.bad {
		return &dataError{"the data ends within a field"}
	}
	return nil
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) int16() int16 {
	if b := c.bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) int32() int32 {
	if b := c.bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) int64() int64 {
	if b := c.bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

// nullable reads a byte string with its length in front; -1 is null, which is not the empty one.
func (c *cursor) nullable() []byte {
	n := c.varint()
	if n == -1 || c.bad {
		return nil
	}
	b := c.bytes(int(n))
	if b == nil && !c.bad {
		b = []byte{}
	}
	return b
}

// compactLength is that of an array in the flexible encoding (KIP-482), one less than what is written; none counts as empty. Elements
// take a byte at least, so a greater one is malformed.
func (c *cursor) compactLength() int {
	n := c.uvarint()
	if n > uint64(len(c.b))+1 {
		c.bad, c.b = true, nil
		return 0
	}
	return max(int(n)-1, 0)
}

// compactString takes null for the empty one.
func (c *cursor) compactString() string { return string(c.bytes(c.compactLength())) }

// tags passes over tagged fields, whose count is the number itself.
func (c *cursor) tags() {
	for n := c.uvarint(); n > 0 && !c.bad; n-- {
		c.uvarint()
		c.bytes(int(c.uvarint()))
	}
}
