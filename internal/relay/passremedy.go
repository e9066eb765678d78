package relay

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// PassRemedy offers to pass one halted row. reason is the code of its fault, to be kept with the decision.
func PassRemedy(eventID, position, reason string) fault.Remedy {
	if eventID == "" || Storable(eventID) != eventID || fault.Printable(eventID) != eventID {
		eventID = position // an id that cannot be pasted
	}
	return fault.Do("To continue without this row: write it to the dead-letter topic, from where it can be corrected "+
		"and sent. The running connector takes the decision up within two seconds.",
		fmt.Sprintf("cdc-outbox row pass %s --reason %s", fault.Printable(shell(eventID)), shell(reason)))
}

// Storable is a text as a column of any encoding takes it: a row that Postgres has not checked, such as a logical
// message, may hold any bytes.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}

// shell quotes a word for a shell if it needs that.
func shell(word string) string {
	quoted := ""
	plain := word != ""
	for _, c := range word {
		if c == '\'' {
			quoted += `'\''`
			plain = false
			continue
		}
		quoted += string(c)
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			plain = false
		}
	}
	if plain && word[0] != '-' {
		return word
	}
	return "'" + quoted + "'"
}
