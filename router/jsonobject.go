package router

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonObject reads the members of one JSON object (RFC 8259) without allocating in the steady state: names and values
// are slices of the source, or of scratch where escapes had to be decoded. Unlike encoding/json it refuses half
// a surrogate pair, which has no UTF-8 form, and leaves bytes that aren't UTF-8 as they are.
type jsonObject struct {
	src     []byte
	pos     int
	first   bool
	scratch []byte
	loose   bool // value passes over strings without decoding them
}

// jsonMember is a name and its value: the decoded text of a string, otherwise the value's own JSON text; nil for
// null. The slices live as long as the source and until the next reset.
type jsonMember struct {
	name  []byte
	value []byte
}

var (
	errJSONObject    = errors.New("the text isn't a JSON object")
	errJSONString    = errors.New("a JSON string is malformed")
	errJSONSurrogate = errors.New("a JSON string holds half a surrogate pair")
	errJSONValue     = errors.New("a JSON value is malformed")
	errJSONDepth     = errors.New("JSON values are nested too deep")
)

// maxJSONDepth bounds the recursion of value.
const maxJSONDepth = 100

// reset starts on src. It reports false for JSON null, which has no members.
func (o *jsonObject) reset(src []byte) (bool, error) {
	o.src, o.pos, o.first, o.scratch = src, 0, true, o.scratch[:0]
	o.space()
	if o.accept('{') {
		return true, nil
	}
	if string(bytes.TrimRight(src[o.pos:], " \t\r\n")) == "null" {
		return false, nil
	}
	return false, errJSONObject
}

// next returns the next member; ok is false after the last one.
func (o *jsonObject) next() (m jsonMember, ok bool, err error) {
	if m.name, ok, err = o.name(); !ok {
		return m, false, err
	}
	m.value, err = o.member()
	return m, err == nil, err
}

// name returns the next member's name and stands at its value then; ok is false after the last one.
func (o *jsonObject) name() (name []byte, ok bool, err error) {
	o.space()
	if o.accept('}') {
		if o.space(); o.pos != len(o.src) {
			return nil, false, errJSONObject
		}
		return nil, false, nil
	}
	if !o.first {
		if !o.accept(',') {
			return nil, false, errJSONObject
		}
		o.space()
	}
	o.first = false
	if name, err = o.string(); err != nil {
		return nil, false, err
	}
	if o.space(); !o.accept(':') {
		return nil, false, errJSONObject
	}
	o.space()
	return name, true, nil
}

// member reads a member's value in the form a header takes.
func (o *jsonObject) member() ([]byte, error) {
	if o.pos < len(o.src) && o.src[o.pos] == '"' {
		return o.string()
	}
	start := o.pos
	if err := o.value(0); err != nil {
		return nil, err
	}
	text := o.src[start:o.pos]
	if string(text) == "null" {
		return nil, nil
	}
	return text, nil
}

// value passes over a value of any kind.
func (o *jsonObject) value(depth int) error {
	if depth > maxJSONDepth {
		return errJSONDepth
	}
	if o.pos >= len(o.src) {
		return errJSONValue
	}
	switch c := o.src[o.pos]; {
	case c == '"' && o.loose:
		return o.skipString()
	case c == '"':
		mark := len(o.scratch)
		_, err := o.string()
		o.scratch = o.scratch[:mark]
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

// sequence passes over an array, or an object where named is set.
func (o *jsonObject) sequence(end byte, depth int, named bool) error {
	o.pos++
	if o.space(); o.accept(end) {
		return nil
	}
	for {
		o.space()
		if named {
			if o.pos >= len(o.src) || o.src[o.pos] != '"' {
				return errJSONValue
			}
			if err := o.value(depth + 1); err != nil {
				return err
			}
			if o.space(); !o.accept(':') {
				return errJSONValue
			}
			o.space()
		}
		if err := o.value(depth + 1); err != nil {
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

func (o *jsonObject) word(w string) error {
	if !bytes.HasPrefix(o.src[o.pos:], []byte(w)) {
		return errJSONValue
	}
	o.pos += len(w)
	return nil
}

func (o *jsonObject) number() error {
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

func (o *jsonObject) digits() bool {
	start := o.pos
	for o.pos < len(o.src) && isDigit(o.src[o.pos]) {
		o.pos++
	}
	return o.pos > start
}

// string reads a string and returns its text, which is a slice of the source unless it holds escapes.
func (o *jsonObject) string() ([]byte, error) {
	if !o.accept('"') {
		return nil, errJSONString
	}
	start := o.pos
	for o.pos < len(o.src) {
		switch c := o.src[o.pos]; {
		case c == '"':
			o.pos++
			return o.src[start : o.pos-1 : o.pos-1], nil
		case c == '\\':
			return o.escaped(start)
		case c < 0x20:
			return nil, errJSONString
		}
		o.pos++
	}
	return nil, errJSONString
}

// skipString passes over a string whose escapes need have no meaning.
func (o *jsonObject) skipString() error {
	for o.pos++; o.pos < len(o.src); o.pos++ {
		switch c := o.src[o.pos]; {
		case c == '"':
			o.pos++
			return nil
		case c == '\\':
			o.pos++
		case c < 0x20:
			return errJSONString
		}
	}
	return errJSONString
}

// escaped goes on with a string whose first escape is at pos.
func (o *jsonObject) escaped(start int) ([]byte, error) {
	mark := len(o.scratch)
	o.scratch = append(o.scratch, o.src[start:o.pos]...)
	for o.pos < len(o.src) {
		c := o.src[o.pos]
		o.pos++
		switch {
		case c == '"':
			return o.scratch[mark:len(o.scratch):len(o.scratch)], nil
		case c < 0x20:
			return nil, errJSONString
		case c != '\\':
			o.scratch = append(o.scratch, c)
		default:
			if err := o.escape(); err != nil {
				return nil, err
			}
		}
	}
	return nil, errJSONString
}

// escape decodes what follows a backslash.
func (o *jsonObject) escape() error {
	if o.pos >= len(o.src) {
		return errJSONString
	}
	c := o.src[o.pos]
	o.pos++
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
	o.scratch = append(o.scratch, c)
	return nil
}

func (o *jsonObject) unicode() error {
	r, err := o.hex4()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if !o.accept('\\') || !o.accept('u') {
			return errJSONSurrogate
		}
		low, err := o.hex4()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return errJSONSurrogate
		}
	}
	o.scratch = utf8.AppendRune(o.scratch, r)
	return nil
}

func (o *jsonObject) hex4() (rune, error) {
	if len(o.src)-o.pos < 4 {
		return 0, errJSONString
	}
	var r rune
	for _, c := range o.src[o.pos : o.pos+4] {
		switch {
		case isDigit(c):
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
	o.pos += 4
	return r, nil
}

func (o *jsonObject) space() {
	for o.pos < len(o.src) {
		switch o.src[o.pos] {
		case ' ', '\t', '\r', '\n':
			o.pos++
		default:
			return
		}
	}
}

func (o *jsonObject) accept(c byte) bool {
	if o.pos < len(o.src) && o.src[o.pos] == c {
		o.pos++
		return true
	}
	return false
}
