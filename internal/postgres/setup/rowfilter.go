package setup

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// filterTerm is a row filter that was understood: it holds for a row if the value of the expression is in the list or,
// with not, if the value is outside of it.
type filterTerm struct {
	of  string
	in  []string
	not bool
}

func (t filterTerm) holds(value string) bool { return slices.Contains(t.in, value) != t.not }

// parseFilter reads a filter as pg_get_expr prints it: every operation is in parentheses, constants have casts. What it
// does not know it leaves alone.
func parseFilter(text string) (filterTerm, bool) {
	text = unwrap(text)
	if parts := splitTop(text, " OR "); len(parts) > 1 {
		return parseOr(parts)
	}
	if rest, negated := strings.CutPrefix(text, "NOT "); negated {
		t, ok := parseFilter(rest)
		t.not = !t.not
		return t, ok
	}
	for _, o := range []struct {
		sign      string
		not, list bool
	}{{" = ANY ", false, true}, {" <> ALL ", true, true}, {" = ", false, false}, {" <> ", true, false}} {
		sides := splitTop(text, o.sign)
		if len(sides) != 2 {
			continue
		}
		t := filterTerm{of: unwrap(sides[0]), not: o.not}
		constants := []string{sides[1]}
		if o.list {
			var ok bool
			if constants, ok = arrayElements(sides[1]); !ok {
				return t, false
			}
		}
		for _, c := range constants {
			value, ok := constant(c)
			if !ok {
				return t, false
			}
			t.in = append(t.in, value)
		}
		return t, true
	}
	return filterTerm{of: text, in: []string{"true"}}, isColumn.MatchString(text)
}

func parseOr(parts []string) (filterTerm, bool) {
	var all filterTerm
	for i, p := range parts {
		t, ok := parseFilter(p)
		if !ok || t.not || i > 0 && t.of != all.of {
			return t, false
		}
		all.of, all.in = t.of, append(all.in, t.in...)
	}
	return all, true
}

var (
	isColumn    = regexp.MustCompile(`^([a-z_][a-z0-9_$]*|"([^"]|"")+")$`)
	isLiteral   = regexp.MustCompile(`^'([^']|'')*'$`)
	integerCast = regexp.MustCompile(`::(smallint|integer|bigint)$`)
	trailing    = regexp.MustCompile(`::[a-z "_.0-9()\[\]]+$`)
)

// arrayElements splits ARRAY[…], with or without a cast of the whole.
func arrayElements(text string) ([]string, bool) {
	text = unwrap(text)
	if loc := strings.LastIndex(text, ")::"); loc >= 0 && strings.HasSuffix(text, "[]") {
		text = unwrap(text[:loc+1])
	}
	inner, ok := strings.CutPrefix(text, "ARRAY[")
	if !ok || !strings.HasSuffix(inner, "]") {
		return nil, false
	}
	return splitTop(strings.TrimSuffix(inner, "]"), ", "), true
}

// constant returns a literal without its casts; an integer in one spelling.
func constant(text string) (string, bool) {
	if n, ok := integer(text); ok {
		return strconv.Itoa(n), true
	}
	text = unwrap(text)
	for !isLiteral.MatchString(text) {
		shorter := unwrap(trailing.ReplaceAllString(text, ""))
		if shorter == text {
			_, err := strconv.ParseFloat(text, 64)
			return text, err == nil || text == "true" || text == "false"
		}
		text = shorter
	}
	return text, true
}

// integer returns the value of a constant of an integer type: 4, (4)::bigint, '-1'::integer.
func integer(text string) (int, bool) {
	text = unwrap(text)
	bare := integerCast.ReplaceAllString(text, "")
	if bare != text && isLiteral.MatchString(bare) {
		bare = strings.Trim(bare, "'")
	}
	n, err := strconv.Atoi(unwrap(bare))
	return n, err == nil
}

// unwrap removes the parentheses around the whole.
func unwrap(text string) string {
	text = strings.TrimSpace(text)
	for strings.HasPrefix(text, "(") && closing(text, 0) == len(text)-1 {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	return text
}

// closing returns where the bracket at open is closed, or -1.
func closing(text string, open int) int {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '\'', '"':
			end := strings.IndexByte(text[i+1:], text[i])
			if end < 0 {
				return -1
			}
			i += end + 1
		case '(', '[':
			depth++
		case ')', ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// splitTop splits where sep is outside of brackets and quotes.
func splitTop(text, sep string) []string {
	var parts []string
	from := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case strings.HasPrefix(text[i:], sep):
			parts = append(parts, text[from:i])
			from = i + len(sep)
			i = from - 1
		case c == '(' || c == '[':
			if i = closing(text, i); i < 0 {
				return nil
			}
		case c == '\'' || c == '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return nil
			}
			i += end + 1
		}
	}
	return append(parts, text[from:])
}

// neverNull are functions that return a value for every argument that is not NULL.
var neverNull = regexp.MustCompile(`^(hash(text|bpchar|char|name|int[248]|oid)(extended)?|uuid_hash(_extended)?|` +
	`hash_numeric(_extended)?|abs|mod|length|char_length|octet_length|ascii|lower|upper|md5|uuid_send|get_byte)$`)

var (
	// no arithmetic: overflow and division by zero are errors, which end decoding at the row
	filterToken = regexp.MustCompile(`^(\s+|'(?:[^']|'')*'|"(?:[^"]|"")+"|::|[a-z_][a-z0-9_$]*|[0-9]+|` +
		`\|\||[%&|#,()])`)
	castType = regexp.MustCompile(`^(smallint|integer|bigint|text|character varying|bpchar|name|uuid|boolean|bytea|` +
		`oid)\b`)
)

// mayBeNull says why an expression may be NULL for a row of the table; empty: it never is.
func mayBeNull(expression string, t postgres.OutboxTable) string {
	for rest := expression; rest != ""; {
		token := filterToken.FindString(rest)
		if token == "" {
			return "the expression is not understood"
		}
		rest = rest[len(token):]
		switch {
		case token == "::":
			cast := castType.FindString(rest)
			if cast == "" {
				return "the expression is not understood"
			}
			rest = rest[len(cast):]
		case token[0] >= 'a' && token[0] <= 'z' || token[0] == '_' || token[0] == '"':
			if strings.HasPrefix(rest, "(") {
				if !neverNull.MatchString(token) {
					return "the function " + token + " may return NULL"
				}
				continue
			}
			if why := columnMayBeNull(token, t); why != "" {
				return why
			}
		}
	}
	return ""
}

func columnMayBeNull(token string, t postgres.OutboxTable) string {
	name := token
	if token[0] == '"' {
		name = strings.ReplaceAll(token[1:len(token)-1], `""`, `"`)
	}
	c, ok := t.Column(name)
	switch {
	case !ok:
		return "the expression is not understood"
	case !c.NotNull:
		return "column " + token + " may be NULL, and a row with NULL there is in none of them"
	case c.Type == "json" || c.Type == "jsonb" || c.Category == "A" || c.Category == "C":
		return "a value of column " + token + " may contain NULL"
	}
	return ""
}
