package java

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// translate writes a pattern of java.util.regex.Pattern in the syntax of Go's regexp, so that both match the same
// printable ASCII texts with the same groups. It accepts the constructs it knows and refuses all others: a topic whose
// name silently changed with the migration would have no readers.
func translate(pattern string) (string, error) {
	t := translator{in: pattern}
	for t.pos < len(t.in) {
		if err := t.next(); err != nil {
			return "", fmt.Errorf("at byte %d of the pattern: %w", t.pos, err)
		}
	}
	out := t.out.String()
	tree, err := syntax.Parse(out, syntax.Perl)
	if err != nil {
		return "", fmt.Errorf("the pattern cannot be used: %w", err)
	}
	if repeatsEmpty(tree) {
		return "", errors.New("a group that can be empty is repeated, which Java and Go do differently; write it " +
			"without the inner or the outer repetition")
	}
	return out, nil
}

type translator struct {
	in    string
	pos   int
	out   strings.Builder
	names []string // of groups
}

func (t *translator) rest() string { return t.in[t.pos:] }

func (t *translator) copyInput(n int) {
	t.out.WriteString(t.in[t.pos : t.pos+n])
	t.pos += n
}

func (t *translator) next() error {
	switch c := t.in[t.pos]; c {
	case '\\':
		return t.escape(false)
	case '[':
		return t.class()
	case '(':
		return t.group()
	case '*', '+', '?':
		t.copyInput(1)
		return t.afterQuantifier()
	case '{':
		return t.repetition()
	default:
		if c < 0x20 || c > 0x7e {
			return errors.New("a character that is not printable ASCII")
		}
		t.copyInput(1)
		return nil
	}
}

// afterQuantifier takes the mark of a reluctant quantifier.
func (t *translator) afterQuantifier() error {
	switch {
	case strings.HasPrefix(t.rest(), "+"):
		return errors.New("possessive quantifiers are not supported")
	case strings.HasPrefix(t.rest(), "?"):
		t.copyInput(1)
	}
	return nil
}

// repetition takes {n}, {n,} and {n,m}. Go would read anything else as text; Java reports an error.
func (t *translator) repetition() error {
	body, _, closed := strings.Cut(t.rest()[1:], "}")
	low, high, _ := strings.Cut(body, ",")
	if !closed || low == "" || !digits(low) || !digits(high) {
		return errors.New("an illegal repetition; a brace as a character is written \\{")
	}
	t.copyInput(len(body) + 2)
	return t.afterQuantifier()
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// group takes the start of a group.
func (t *translator) group() error {
	rest := t.rest()
	if !strings.HasPrefix(rest, "(?") {
		t.copyInput(1)
		return nil
	}
	switch {
	case strings.HasPrefix(rest, "(?:"):
		t.copyInput(3)
		return nil
	case strings.HasPrefix(rest, "(?="), strings.HasPrefix(rest, "(?!"), strings.HasPrefix(rest, "(?<="),
		strings.HasPrefix(rest, "(?<!"):
		return errors.New("lookahead and lookbehind are not supported")
	case strings.HasPrefix(rest, "(?>"):
		return errors.New("atomic groups are not supported")
	case strings.HasPrefix(rest, "(?<"):
		name, _, closed := strings.Cut(rest[3:], ">")
		if !closed || !groupName(name) {
			return errors.New("a group's name consists of letters and digits and starts with a letter")
		}
		if slices.Contains(t.names, name) { // which Go lets pass
			return fmt.Errorf("two groups are named %q", name)
		}
		t.names = append(t.names, name)
		t.copyInput(len(name) + 4)
		return nil
	}
	flags := strings.IndexAny(rest, ":)")
	if flags < 0 || strings.Trim(rest[2:flags], "is-") != "" { // with m, ^ does not match the empty input in Java
		return errors.New("of the flags only i and s are supported")
	}
	t.copyInput(flags + 1)
	return nil
}

// class takes a character class. Java's can be united and intersected by nesting; Go's can hold POSIX names.
func (t *translator) class() error {
	t.copyInput(1)
	if strings.HasPrefix(t.rest(), "^") {
		t.copyInput(1)
	}
	for first := true; ; first = false {
		rest := t.rest()
		switch {
		case rest == "":
			return errors.New("a character class lacks its closing bracket")
		case rest[0] == ']' && first:
			return errors.New("a bracket that starts a class is written \\]")
		case rest[0] == ']':
			t.copyInput(1)
			return nil
		case rest[0] == '[':
			return errors.New("classes within classes are not supported; a bracket as a character is written \\[")
		case strings.HasPrefix(rest, "&&"):
			return errors.New("intersections of classes are not supported")
		case rest[0] == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		case rest[0] == '-' && !first && len(rest) > 1 && rest[1] != ']':
			return errors.New("a hyphen in a class that is part of no range is written \\-")
		case rest[0] < 0x20 || rest[0] > 0x7e:
			return errors.New("a character that is not printable ASCII")
		default:
			if err := t.classItem(); err != nil {
				return err
			}
		}
	}
}

// classItem takes a character or a range of two.
func (t *translator) classItem() error {
	rest := t.rest()
	if len(rest) >= 3 && rest[1] == '-' && rest[2] != ']' {
		if rest[2] == '[' || rest[2] == '\\' || rest[2] < 0x20 || rest[2] > 0x7e || rest[0] == '-' {
			return errors.New("a range ends in something else than a plain character")
		}
		t.copyInput(3)
		return nil
	}
	t.copyInput(1)
	return nil
}

// posix are the classes of \p that Java takes for ASCII ones.
var posix = map[string]string{
	"Lower": "a-z", "Upper": "A-Z", "ASCII": `\x00-\x7F`, "Alpha": "A-Za-z", "Digit": "0-9", "Alnum": "A-Za-z0-9",
	"Punct": "!-/:-@[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": ` \t`, "XDigit": "0-9A-Fa-f", "Space": ` \t-\r`,
}

// escape takes a backslash and its sequence.
func (t *translator) escape(inClass bool) error {
	if len(t.rest()) < 2 {
		return errors.New("the pattern ends in a backslash")
	}
	done, err := t.longEscape(inClass)
	if done || err != nil {
		return err
	}
	if err := t.shortEscape(inClass); err != nil {
		return err
	}
	if inClass && strings.HasPrefix(t.rest(), "-") && len(t.rest()) > 1 && t.rest()[1] != ']' {
		return errors.New("a range in a class starts with an escape; put plain characters at both its ends, or write " +
			"\\- for the hyphen")
	}
	return nil
}

// longEscape takes an escape of more than two characters, if there is one.
func (t *translator) longEscape(inClass bool) (bool, error) {
	switch c := t.rest()[1]; {
	case c == 'Q' && !inClass:
		return true, t.quoted()
	case c == 'p' || c == 'P':
		return true, t.property(inClass)
	case c == 'x' || c == 'u':
		return true, t.codePoint()
	}
	return false, nil
}

// shortEscape takes an escape of two characters.
func (t *translator) shortEscape(inClass bool) error {
	rest := t.rest()
	switch c := rest[1]; {
	case strings.IndexByte("dDwWsStnrfa", c) >= 0:
		t.copyInput(2)
	case c == 'e':
		t.pos += 2
		t.out.WriteString(`\x1b`)
	case strings.IndexByte("bBA", c) >= 0 && !inClass:
		if strings.HasPrefix(rest[2:], "{") {
			return errors.New("\\b with braces is not supported")
		}
		t.copyInput(2)
	case (c == 'z' || c == 'Z') && !inClass:
		t.pos += 2
		t.out.WriteString(`\z`)
	case c >= '0' && c <= '9' || c == 'k':
		return errors.New("references back to groups, and octal characters, are not supported")
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c < 0x20 || c > 0x7e:
		return fmt.Errorf("the escape \\%c is not supported", c)
	default:
		t.copyInput(2)
	}
	return nil
}

// quoted takes \Q…\E.
func (t *translator) quoted() error {
	text, _, closed := strings.Cut(t.rest()[2:], `\E`)
	t.pos += 2 + len(text)
	if closed {
		t.pos += 2
	}
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return errors.New("a character that is not printable ASCII")
		}
		if strings.IndexByte(`\.+*?()|[]{}^$`, text[i]) >= 0 {
			t.out.WriteByte('\\')
		}
		t.out.WriteByte(text[i])
	}
	return nil
}

// property takes \p{Name}.
func (t *translator) property(inClass bool) error {
	rest := t.rest()
	name, _, closed := strings.Cut(strings.TrimPrefix(rest[2:], "{"), "}")
	set := posix[name]
	if !strings.HasPrefix(rest[2:], "{") || !closed || set == "" || inClass && rest[1] == 'P' {
		return errors.New("of the classes with \\p only Java's POSIX ones are supported, such as \\p{Alpha}")
	}
	t.pos += len(name) + 4
	switch {
	case inClass:
		t.out.WriteString(set)
	case rest[1] == 'P':
		t.out.WriteString("[^" + set + "]")
	default:
		t.out.WriteString("[" + set + "]")
	}
	return nil
}

// codePoint takes \xhh, \x{h…} and \uhhhh.
func (t *translator) codePoint() error {
	rest := t.rest()
	hex, length := "", 0
	switch {
	case strings.HasPrefix(rest, `\x{`):
		body, _, closed := strings.Cut(rest[3:], "}")
		if closed {
			hex, length = body, len(body)+4
		}
	case rest[1] == 'x' && len(rest) >= 4:
		hex, length = rest[2:4], 4
	case rest[1] == 'u' && len(rest) >= 6:
		hex, length = rest[2:6], 6
	}
	if hex == "" || len(hex) > 6 || strings.Trim(hex, "0123456789abcdefABCDEF") != "" {
		return errors.New("a character's code is malformed")
	}
	t.pos += length
	t.out.WriteString(`\x{` + hex + `}`)
	return nil
}

// repeatsEmpty finds a repetition of something that can be empty and holds a group: the group's text then differs.
func repeatsEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat, syntax.OpQuest:
		if re.Sub[0].MaxCap() > 0 && canBeEmpty(re.Sub[0]) {
			return true
		}
	}
	for _, sub := range re.Sub {
		if repeatsEmpty(sub) {
			return true
		}
	}
	return false
}

func canBeEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		return re.Min == 0 || canBeEmpty(re.Sub[0])
	case syntax.OpLiteral:
		return len(re.Rune) == 0
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return false
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if canBeEmpty(sub) {
				return true
			}
		}
		return false
	case syntax.OpCapture, syntax.OpPlus, syntax.OpConcat:
		for _, sub := range re.Sub {
			if !canBeEmpty(sub) {
				return false
			}
		}
		return true
	default: // assertions
		return true
	}
}
