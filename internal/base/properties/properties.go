// Package properties reads property files as java.util.Properties does.
package properties

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// Property is one entry of a property file.
type Property struct{ Key, Value []byte }

var errUnicodeEscape = errors.New(`a malformed \u escape`)

// Parse reads text as java.util.Properties.load does, entries in the order of the text. A key that occurs
// again takes its last value, at the place of the first.
func Parse(text []byte) ([]Property, error) {
	var all []Property
	index := map[string]int{}
	for len(text) > 0 {
		var line []byte
		line, text = logicalLine(text)
		if len(line) == 0 {
			continue
		}
		key, rest := splitKey(line)
		var p Property
		var err error
		if p.Key, err = unescape(key); err != nil {
			return nil, err
		}
		if p.Value, err = unescape(rest); err != nil {
			return nil, err
		}
		if i, again := index[string(p.Key)]; again {
			all[i].Value = p.Value
			continue
		}
		index[string(p.Key)] = len(all)
		all = append(all, p)
	}
	return all, nil
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

func skipBlanks(s []byte) []byte {
	for len(s) > 0 && blank(s[0]) {
		s = s[1:]
	}
	return s
}

// naturalLine cuts the text after its first line.
func naturalLine(text []byte) (line, rest []byte) {
	for i, c := range text {
		switch {
		case c == '\r' && i+1 < len(text) && text[i+1] == '\n':
			return text[:i], text[i+2:]
		case c == '\n' || c == '\r':
			return text[:i], text[i+1:]
		}
	}
	return text, nil
}

// logicalLine joins lines that end in an odd number of backslashes with their successors. Comments give an empty one.
func logicalLine(text []byte) (line, rest []byte) {
	first, rest := naturalLine(text)
	first = skipBlanks(first)
	if len(first) == 0 || first[0] == '#' || first[0] == '!' {
		return nil, rest
	}
	for {
		backslashes := 0
		for backslashes < len(first) && first[len(first)-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return first, rest
		}
		first = first[: len(first)-1 : len(first)-1]
		if len(rest) == 0 {
			return first, nil
		}
		var more []byte
		more, rest = naturalLine(rest)
		first = append(first, skipBlanks(more)...)
	}
}

// splitKey cuts at the first =, : or blank that is not escaped.
func splitKey(line []byte) (key, value []byte) {
	end := 0
	for end < len(line) && line[end] != '=' && line[end] != ':' && !blank(line[end]) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value = skipBlanks(line[end:])
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = skipBlanks(value[1:])
	}
	return line[:end], value
}

func unescape(s []byte) ([]byte, error) {
	out := make([]byte, 0, len(s))
	var high rune // first half of a surrogate pair
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			if s[i] != '\\' {
				out = append(out, s[i])
			}
			continue
		}
		i++
		switch c := s[i]; c {
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'n':
			out = append(out, '\n')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r, ok := hex4(s[i+1:])
			if !ok {
				return nil, errUnicodeEscape
			}
			i += 4
			switch {
			case high != 0:
				if r = utf16.DecodeRune(high, r); r == utf8.RuneError {
					return nil, errUnicodeEscape
				}
				high = 0
				out = utf8.AppendRune(out, r)
			case utf16.IsSurrogate(r):
				high = r
				continue
			default:
				out = utf8.AppendRune(out, r)
			}
		default:
			out = append(out, c)
		}
		if high != 0 {
			return nil, errUnicodeEscape
		}
	}
	if high != 0 {
		return nil, errUnicodeEscape
	}
	return out, nil
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
