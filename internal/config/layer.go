package config

import (
	"fmt"
	"strconv"
	"strings"
)

// layer holds the values that one source of the configuration sets, by key. Load lays the layers over one another with
// maps.Copy.
type layer map[string]given

// given is the value of a key as it was written, together with its origin.
type given struct {
	Text   string
	List   []string // for a sequence in the file
	IsList bool
	Origin Origin
}

// Origin is the source of a value.
type Origin struct {
	Layer string // "default", "file", "environment", "flag" or "settings"
	Where string // file:line, variable, flag or "settings"; empty for defaults
}

// String returns the place, or the layer if there is none.
func (o Origin) String() string {
	if o.Where == "" {
		return o.Layer
	}
	return o.Where
}

// defaultLayer is the lowest layer. It alone has every key.
func defaultLayer() layer {
	out := layer{}
	for _, f := range fields() {
		out[f.Key] = given{Text: f.Default, Origin: Origin{Layer: "default"}}
	}
	return out
}

// list returns the elements: of a sequence, or of a comma-separated text.
func (g given) list() []string {
	if g.IsList {
		return g.List
	}
	if strings.TrimSpace(g.Text) == "" {
		return nil
	}
	return splitList(g.Text)
}

// isDefault reports whether the default was not changed; it may have been written down.
func (g given) isDefault(f Field) bool {
	switch {
	case g.Origin.Layer == "default":
		return true
	case f.Type == "list":
		return strings.Join(g.list(), ",") == f.Default
	default:
		return g.Text == f.Default
	}
}

// splitList splits at commas outside double quotes, because a quoted table name may contain one, and trims blanks.
func splitList(s string) []string {
	var out []string
	start, quoted := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			out = append(out, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

// maskedText returns the value for a message, quoted and shortened. For a secret it returns nothing.
func (g given) maskedText(f Field) string {
	if f.Secret() {
		return ""
	}
	text := g.Text
	if g.IsList {
		text = strings.Join(g.List, ",")
	}
	return quote(text)
}

// quote leaves out a possible password in an address: a key that holds an address of another form may hold one.
func quote(s string) string {
	const longest = 80
	s = withoutCredentials(s)
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "…"
	}
	return strconv.Quote(s)
}

// problem returns a problem with the value of a field.
func (g given) problem(f Field, allowed, format string, args ...any) Problem {
	return Problem{
		Key: f.Key, Where: g.Origin.Where, Value: g.maskedText(f), What: fmt.Sprintf(format, args...), Allowed: allowed,
	}
}

// names returns the results of name for all fields.
func names(name func(Field) string) []string {
	out := make([]string, 0, len(fields()))
	for _, f := range fields() {
		out = append(out, name(f))
	}
	return out
}
