// Package jsonobject scans one JSON object without allocating in the steady state.
package jsonobject

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// Object reads the members of one JSON object (RFC 8259) without allocating in the steady state: names and values
// are slices of the source, or of scratch if escapes had to be decoded. Unlike encoding/json it refuses half
// a surrogate pair, which has no UTF-8 form, and leaves bytes that are not UTF-8 as they are.
type Object struct {
	Src     []byte
	Pos     int
	first   bool
	Scratch []byte
	Loose   bool // value passes over strings without decoding them
}

// Member is a name and its value: the decoded text of a string, otherwise the value's own JSON text; nil for
// null. The slices live as long as the source and until the next reset.
type Member struct {
	Name  []byte
	Value []byte
}

var (
	ErrNoObject      = errors.New("the text is not a JSON object")
	errJSONString    = errors.New("a JSON string is malformed")
	ErrJSONSurrogate = errors.New("a JSON string holds half a surrogate pair")
	errJSONValue     = errors.New("a JSON value is malformed")
	ErrJSONDepth     = errors.New("JSON values are nested too deep")
)

// maxJSONDepth bounds the recursion of value.
const maxJSONDepth = 100

// Reset starts on src. It reports false for JSON null, which has no members.
func (o *Object) Reset(src []byte) (bool, error) {
	o.Src, o.Pos, o.first, o.Scratch = src, 0, true, o.Scratch[:0]
	o.space()
	if o.accept('{') {
		return true, nil
	}
	if string(bytes.TrimRight(src[o.Pos:], " \t\r\n")) == "null" {
		return false, nil
	}
	return false, ErrNoObject
}

// Next returns the next member; ok is false after the last one.
func (o *Object) Next() (m Member, ok bool, err error) {
	if m.Name, ok, err = o.Name(); !ok {
		return m, false, err
	}
	m.Value, err = o.Member()
	return m, err == nil, err
}

// Name returns the next member's name and advances to its value; ok is false after the last member.
func (o *Object) Name() (name []byte, ok bool, err error) {
	o.space()
	if o.accept('}') {
		if o.space(); o.Pos != len(o.Src) {
			return nil, false, ErrNoObject
		}
		return nil, false, nil
	}
	if !o.first {
		if !o.accept(',') {
			return nil, false, ErrNoObject
		}
		o.space()
	}
	o.first = false
	if name, err = o.string(); err != nil {
		return nil, false, err
	}
	if o.space(); !o.accept(':') {
		return nil, false, ErrNoObject
	}
	o.space()
	return name, true, nil
}

// Member reads a member's value in the form a header takes.
func (o *Object) Member() ([]byte, error) {
	if o.Pos < len(o.Src) && o.Src[o.Pos] == '"' {
		return o.string()
	}
	start := o.Pos
	if err := o.Value(0); err != nil {
		return nil, err
	}
	text := o.Src[start:o.Pos]
	if string(text) == "null" {
		return nil, nil
	}
	return text, nil
}

// Value passes over a value of any kind.
func (o *Object) Value(depth int) error {
	if depth > maxJSONDepth {
		return ErrJSONDepth
	}
	if o.Pos >= len(o.Src) {
		return errJSONValue
	}
	switch c := o.Src[o.Pos]; {
	case c == '"' && o.Loose:
		return o.skipString()
	case c == '"':
		mark := len(o.Scratch)
		_, err := o.string()
		o.Scratch = o.Scratch[:mark]
		return err
	case c == '{':
		return o.sequence('}', depth, true)
	case c == '[':
		return o.sequence(']', depth, false)
	case c == 't':
		return o.word("true")
	case c == 'f':
		return o.word("false")
	case c == 'n':
		return o.word("null")
	}
	return o.number()
}

// sequence passes over an array, or an object if named is set.
func (o *Object) sequence(end byte, depth int, named bool) error {
	o.Pos++
	if o.space(); o.accept(end) {
		return nil
	}
	for {
		o.space()
		if named {
			if o.Pos >= len(o.Src) || o.Src[o.Pos] != '"' {
				return errJSONValue
			}
			if err := o.Value(depth + 1); err != nil {
				return err
			}
			if o.space(); !o.accept(':') {
				return errJSONValue
			}
			o.space()
		}
		if err := o.Value(depth + 1); err != nil {
			return err
		}
		o.space()
		if o.accept(end) {
			return nil
		}
		if !o.accept(',') {
			return errJSONValue
		}
	}
}

func (o *Object) word(w string) error {
	if !bytes.HasPrefix(o.Src[o.Pos:], []byte(w)) {
		return errJSONValue
	}
	o.Pos += len(w)
	return nil
}

func (o *Object) number() error {
	o.accept('-')
	if !o.accept('0') && !o.digits() {
		return errJSONValue
	}
	if o.accept('.') && !o.digits() {
		return errJSONValue
	}
	if o.accept('e') || o.accept('E') {
		if !o.accept('+') {
			o.accept('-')
		}
		if !o.digits() {
			return errJSONValue
		}
	}
	return nil
}

func (o *Object) digits() bool {
	start := o.Pos
	for o.Pos < len(o.Src) && digit(o.Src[o.Pos]) {
		o.Pos++
	}
	return o.Pos > start
}

// string reads a string and returns its text, which is a slice of the source unless it holds escapes.
func (o *Object) string() ([]byte, error) {
	if !o.accept('"') {
		return nil, errJSONString
	}
	start := o.Pos
	for i, c := range o.Src[start:] {
		switch {
		case c == '"':
			o.Pos = start + i + 1
			return o.Src[start : start+i : start+i], nil
		case c == '\\':
			o.Pos = start + i
			return o.escaped(start)
		case c < 0x20:
			return nil, errJSONString
		}
	}
	return nil, errJSONString
}

// skipString passes over a string whose escapes need have no meaning.
func (o *Object) skipString() error {
	for o.Pos++; o.Pos < len(o.Src); o.Pos++ {
		switch c := o.Src[o.Pos]; {
		case c == '"':
			o.Pos++
			return nil
		case c == '\\':
			o.Pos++
		case c < 0x20:
			return errJSONString
		}
	}
	return errJSONString
}

// escaped goes on with a string whose first escape is at pos.
func (o *Object) escaped(start int) ([]byte, error) {
	mark := len(o.Scratch)
	o.Scratch = append(o.Scratch, o.Src[start:o.Pos]...)
	for o.Pos < len(o.Src) {
		c := o.Src[o.Pos]
		o.Pos++
		switch {
		case c == '"':
			return o.Scratch[mark:len(o.Scratch):len(o.Scratch)], nil
		case c < 0x20:
			return nil, errJSONString
		case c != '\\':
			o.Scratch = append(o.Scratch, c)
		default:
			if err := o.escape(); err != nil {
				return nil, err
			}
		}
	}
	return nil, errJSONString
}

// escape decodes the escape after a backslash.
func (o *Object) escape() error {
	if o.Pos >= len(o.Src) {
		return errJSONString
	}
	c := o.Src[o.Pos]
	o.Pos++
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return o.unicode()
	default:
		return errJSONString
	}
	o.Scratch = append(o.Scratch, c)
	return nil
}

func (o *Object) unicode() error {
	r, err := o.hex4()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if !o.accept('\\') || !o.accept('u') {
			return ErrJSONSurrogate
		}
		low, err := o.hex4()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return ErrJSONSurrogate
		}
	}
	o.Scratch = utf8.AppendRune(o.Scratch, r)
	return nil
}

func (o *Object) hex4() (rune, error) {
	if len(o.Src)-o.Pos < 4 {
		return 0, errJSONString
	}
	var r rune
	for _, c := range o.Src[o.Pos : o.Pos+4] {
		switch {
		case digit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, errJSONString
		}
		r = r<<4 | rune(c)
	}
	o.Pos += 4
	return r, nil
}

func (o *Object) space() {
	for o.Pos < len(o.Src) {
		switch o.Src[o.Pos] {
		case ' ', '\t', '\r', '\n':
			o.Pos++
		default:
			return
		}
	}
}

func (o *Object) accept(c byte) bool {
	if o.Pos < len(o.Src) && o.Src[o.Pos] == c {
		o.Pos++
		return true
	}
	return false
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
