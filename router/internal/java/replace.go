package java

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Replacer works as Matcher.matches and then Matcher.replaceFirst do.
type Replacer struct {
	whole *regexp.Regexp // matches whole inputs only
	first *regexp.Regexp // finds: replaceFirst searches again, and need not match the whole input
	parts []replacementPart
}

// replacementPart is literal text, or a group if group is 0 or more.
type replacementPart struct {
	text  string
	group int
}

// NewReplacer translates a pattern and a replacement. Its error names the part that cannot work in the same way.
func NewReplacer(pattern, replacement string) (*Replacer, error) {
	translated, err := translate(pattern)
	if err != nil {
		return nil, err
	}
	first, err := regexp.Compile(translated)
	if err != nil {
		return nil, fmt.Errorf("the pattern cannot be used: %w", err)
	}
	whole, err := regexp.Compile(`\A(?:` + translated + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("the pattern cannot be used: %w", err)
	}
	parts, err := parseReplacement(replacement, first)
	if err != nil {
		return nil, err
	}
	return &Replacer{whole: whole, first: first, parts: parts}, nil
}

// Replace returns the input with the first find replaced, and false if the pattern does not match all of it. It is
// the same as in Java for inputs of printable ASCII characters; see Printable.
func (r *Replacer) Replace(input string) (string, bool) {
	if !r.whole.MatchString(input) {
		return "", false
	}
	at := r.first.FindStringSubmatchIndex(input)
	if at == nil {
		return input, true
	}
	var b strings.Builder
	b.WriteString(input[:at[0]])
	for _, p := range r.parts {
		if p.group < 0 {
			b.WriteString(p.text)
		} else if from := at[2*p.group]; from >= 0 {
			b.WriteString(input[from:at[2*p.group+1]])
		}
	}
	b.WriteString(input[at[1]:])
	return b.String(), true
}

// Printable reports whether s consists of the characters on which the engines agree. They disagree on which other
// characters end a line, are letters, or have another case.
func Printable(s []byte) bool {
	for _, c := range s {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

// parseReplacement reads the syntax of Matcher.appendReplacement: \c is the character c, ${name} and $n are groups. The
// first digit after $ always counts, each further digit only while there is such a group.
func parseReplacement(s string, re *regexp.Regexp) ([]replacementPart, error) {
	var parts []replacementPart
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, replacementPart{text: text.String(), group: -1})
			text.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				return nil, errors.New(`the replacement ends in a backslash`)
			}
			text.WriteByte(s[i])
		case '$':
			group, length, err := groupReference(s[i+1:], re)
			if err != nil {
				return nil, err
			}
			flush()
			parts = append(parts, replacementPart{group: group})
			i += length
		default:
			text.WriteByte(s[i])
		}
	}
	flush()
	return parts, nil
}

// groupReference reads the reference after a dollar, and returns how long it is.
func groupReference(s string, re *regexp.Regexp) (group, length int, err error) {
	if rest, named := strings.CutPrefix(s, "{"); named {
		name, _, closed := strings.Cut(rest, "}")
		if !closed {
			return 0, 0, errors.New("a group's name in the replacement lacks its closing brace")
		}
		if !groupName(name) {
			return 0, 0, fmt.Errorf("%q in the replacement is not a group's name", name)
		}
		if group = re.SubexpIndex(name); group < 0 {
			return 0, 0, fmt.Errorf("the replacement names the group %q, which the pattern does not have", name)
		}
		return group, len(name) + 2, nil
	}
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, 0,
			errors.New(
				`a dollar in the replacement is followed by neither a digit nor a brace; write \$ for the character`,
			)
	}
	if group = int(s[0] - '0'); group > re.NumSubexp() {
		return 0, 0, fmt.Errorf("the replacement uses group %d, and the pattern has %d", group, re.NumSubexp())
	}
	length = 1
	for length < len(s) && s[length] >= '0' && s[length] <= '9' {
		next := group*10 + int(s[length]-'0')
		if next > re.NumSubexp() {
			break
		}
		group = next
		length++
	}
	return group, length, nil
}

func groupName(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}
