package derived

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// Pointer is a member of a JSON column: the column's name, then, each after a slash, the names of the members and the
// numbers of the elements that lead to it. In each of them ~1 stands for a slash and ~0 for a tilde (RFC 6901).
type Pointer struct {
	Column string
	Path   []string
}

// ParsePointer reads headers/PARTITION_ID.
func ParsePointer(text string) (Pointer, error) {
	var parts []string
	for part := range strings.SplitSeq(text, "/") {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(part); strings.Contains(rest, "~") {
			return Pointer{}, errors.New("a ~ is written as ~0, and a slash within a name as ~1")
		}
		parts = append(parts, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	if len(parts) < 2 || parts[0] == "" {
		return Pointer{}, errors.New("it is not a column, a slash and a member, such as headers/PARTITION_ID")
	}
	return Pointer{parts[0], parts[1:]}, nil
}

// errNoJSON says that a column's text is not JSON.
var errNoJSON = errors.New("the text is not JSON")

// find returns the member: the text of a string, the JSON of anything else, nil for null and for a missing member.
func (p Pointer) find(text []byte) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errNoJSON
	}
	at := json.RawMessage(text)
	for _, name := range p.Path {
		if at = step(at, name); at == nil {
			return nil, nil
		}
	}
	if at = trim(at); at[0] == 'n' {
		return nil, nil
	}
	if at[0] != '"' {
		return at, nil
	}
	var s string
	if err := json.Unmarshal(at, &s); err != nil {
		return nil, errNoJSON
	}
	if s == "" {
		return layout.Empty, nil
	}
	return []byte(s), nil
}

// step goes to a member or an element, nil if there is none. Of several members of one name the last counts, as in
// jsonb.
func step(at json.RawMessage, name string) json.RawMessage {
	switch at = trim(at); at[0] {
	case '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(at, &members) != nil {
			return nil
		}
		return members[name]
	case '[':
		var elements []json.RawMessage
		i, err := strconv.Atoi(name)
		if err != nil || json.Unmarshal(at, &elements) != nil || i < 0 || i >= len(elements) {
			return nil
		}
		return elements[i]
	}
	return nil
}

func trim(at json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.Trim(string(at), " \t\r\n"))
}
