package wire

import "encoding/binary"

// Cursor reads big-endian numbers and byte strings. Past the end everything is zero, and err says so.
type Cursor struct {
	B   []byte
	Bad bool
}

// NewCursor reads b.
func NewCursor(b []byte) Cursor { return Cursor{B: b} }

// Left returns how many bytes are left.
func (c *Cursor) Left() int { return len(c.B) }

// Err returns an error if the cursor went past the end.
func (c *Cursor) Err() error {
	if c.Bad {
		return DataError("the data ends within a field")
	}
	return nil
}

// Bytes returns the next n bytes, without a copy.
func (c *Cursor) Bytes(n int) []byte {
	if n < 0 || n > len(c.B) {
		c.Bad, c.B = true, nil
		return nil
	}
	b := c.B[:n:n]
	c.B = c.B[n:]
	return b
}

// Int16 reads a number.
func (c *Cursor) Int16() int16 {
	if b := c.Bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads a number.
func (c *Cursor) Int32() int32 {
	if b := c.Bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads a number.
func (c *Cursor) Int64() int64 {
	if b := c.Bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (c *Cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.B)
	if n <= 0 {
		c.Bad, c.B = true, nil
		return 0
	}
	c.B = c.B[n:]
	return v
}

// Varint reads a zigzag-encoded number.
func (c *Cursor) Varint() int64 {
	v, n := binary.Varint(c.B)
	if n <= 0 {
		c.Bad, c.B = true, nil
		return 0
	}
	c.B = c.B[n:]
	return v
}

// Nullable reads a byte string with its length in front; -1 is null, which is not the empty one.
func (c *Cursor) Nullable() []byte {
	n := c.Varint()
	if n == -1 || c.Bad {
		return nil
	}
	b := c.Bytes(int(n))
	if b == nil && !c.Bad {
		b = []byte{}
	}
	return b
}

// compactLength is that of an array in the flexible encoding (KIP-482), one less than what is written; none counts as
// empty. Elements take a byte at least, so a greater one is malformed.
func (c *Cursor) compactLength() int {
	n := c.uvarint()
	if n > uint64(len(c.B))+1 {
		c.Bad, c.B = true, nil
		return 0
	}
	return max(int(n)-1, 0)
}

// compactString takes null for the empty one.
func (c *Cursor) compactString() string { return string(c.Bytes(c.compactLength())) }

// tags passes over tagged fields, whose count is the number itself.
func (c *Cursor) tags() {
	for n := c.uvarint(); n > 0 && !c.Bad; n-- {
		c.uvarint()
		c.Bytes(int(c.uvarint()))
	}
}

// DataError says how an answer breaks the protocol.
type DataError string

func (e DataError) Error() string { return string(e) }
