package identifier

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxBytes is NAMEDATALEN-1: Postgres cuts longer identifiers silently (Postgres docs 4.1.1), so a name that is
// longer would be created under one name and looked up under another.
const maxBytes = 63

// Quote renders any name as one quoted SQL identifier. Postgres has no identifier with a NUL byte in it; the byte
// is dropped here and refused by Check.
func Quote(name string) string {
	name = strings.ReplaceAll(name, "\x00", "")
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// QuoteLiteral renders any text as one SQL string literal, with the same meaning whatever standard_conforming_strings
// is set to: text with a backslash becomes an escape string, as libpq's PQescapeLiteral does.
func QuoteLiteral(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// CheckSlotName reports whether Postgres accepts the name for a slot: 1 to 63 lower-case ASCII letters, digits and
// underscores (ReplicationSlotValidateName in slot.c). START_REPLICATION folds an unquoted name to lower case, so
// upper case would not be an error there but another slot.
func CheckSlotName(name string) error {
	if name == "" || len(name) > maxBytes {
		return fmt.Errorf("a slot name has 1 to %d characters, %q has %d", maxBytes, name, len(name))
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return fmt.Errorf("slot name %q: only a-z, 0-9 and _ are allowed", name)
		}
	}
	return nil
}

// Check reports whether a name (of a publication, schema, table, column or role) can exist in Postgres as it
// is written: not empty, at most 63 bytes, UTF-8, no NUL byte.
func Check(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxBytes:
		return fmt.Errorf("the name %q has %d bytes, Postgres would cut it to %d", name, len(name), maxBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8", name)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("the name %q holds a NUL byte", name)
	}
	return nil
}

// Table names a table. Both parts are the names as the catalog holds them, without quotes.
type Table struct{ Schema, Name string }

// ParseTable reads a table name as SQL does: `public.outbox`, `"Quoted"."Mixed.Case"`, `outbox` (in schema public).
// Unquoted parts are folded to lower case, as Postgres folds them.
func ParseTable(text string) (Table, error) {
	rest := text
	var parts []string
	for {
		part, tail, err := cut(rest)
		if err != nil {
			return Table{}, fmt.Errorf("table name %q: %w", text, err)
		}
		if err := Check(part); err != nil {
			return Table{}, fmt.Errorf("table name %q: %w", text, err)
		}
		parts = append(parts, part)
		if tail == "" {
			break
		}
		if tail[0] != '.' {
			return Table{}, fmt.Errorf("table name %q: expected a dot before %q", text, tail)
		}
		rest = tail[1:]
	}
	switch len(parts) {
	case 1:
		return Table{Schema: "public", Name: parts[0]}, nil
	case 2:
		return Table{Schema: parts[0], Name: parts[1]}, nil
	}
	return Table{}, fmt.Errorf("table name %q has %d parts, write schema.table", text, len(parts))
}

// cut takes one identifier from the front of s.
func cut(s string) (name, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		return cutQuoted(s[1:])
	}
	n := 0
	for n < len(s) && isPlainByte(s[n], n == 0) {
		n++
	}
	if n == 0 {
		return "", "",
			fmt.Errorf(`%q is not an identifier; names with other characters are written in double quotes`, s)
	}
	return fold(s[:n]), s[n:], nil
}

func cutQuoted(s string) (name, rest string, err error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			return "", "", errors.New("a double quote is not closed")
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		if !strings.HasPrefix(s, `"`) {
			return b.String(), s, nil
		}
		b.WriteByte('"')
		s = s[1:]
	}
}

// isPlainByte follows ident_start and ident_cont of Postgres' scanner (scan.l): every byte of a multi-byte
// character counts as a letter.
func isPlainByte(c byte, first bool) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c >= utf8.RuneSelf:
		return true
	case c >= '0' && c <= '9', c == '$':
		return !first
	}
	return false
}

// fold lowers ASCII letters only, as Postgres does in multi-byte encodings (downcase_identifier).
func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// String is the form for people, logs and configuration: quoted only where needed. ParseTable reads it back.
func (t Table) String() string { return display(t.Schema) + "." + display(t.Name) }

// SQL is the form for statements: both parts always quoted.
func (t Table) SQL() string { return Quote(t.Schema) + "." + Quote(t.Name) }

func display(name string) string {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf || !isPlainByte(c, i == 0) {
			return Quote(name)
		}
	}
	if name == "" {
		return Quote(name)
	}
	return name
}
