package jsonobject

import "bytes"

// Begin starts on a document of any kind, in front of its value.
func (o *Object) Begin(src []byte) {
	o.Src, o.Pos, o.Scratch = src, 0, o.Scratch[:0]
	o.space()
}

// Peek returns the next byte, 0 at the end.
func (o *Object) Peek() byte {
	if o.Pos < len(o.Src) {
		return o.Src[o.Pos]
	}
	return 0
}

// Skip passes over white space, then over c if it comes next, and over white space again.
func (o *Object) Skip(c byte) bool {
	o.space()
	if !o.accept(c) {
		return false
	}
	o.space()
	return true
}

// Text reads a string and returns its text, which is a slice of the source unless it holds escapes.
func (o *Object) Text() ([]byte, error) { return o.string() }

// Word passes over one of true, false and null.
func (o *Object) Word(w string) bool {
	if !bytes.HasPrefix(o.Src[min(o.Pos, len(o.Src)):], []byte(w)) {
		return false
	}
	o.Pos += len(w)
	return true
}

// AtEnd passes over white space, and reports whether nothing follows.
func (o *Object) AtEnd() bool {
	o.space()
	return o.Pos >= len(o.Src)
}
