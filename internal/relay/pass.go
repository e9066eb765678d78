package relay

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// PassRemedy offers to pass one halted row.
func PassRemedy(eventID, position string) fault.Remedy {
	if eventID == "" {
		eventID = position
	}
	return fault.Do("To continue without this row: write it to the dead-letter topic, from where it can be corrected "+
		"and sent. The running connector takes the decision up within two seconds.",
		fmt.Sprintf("cdc-outbox row pass %s --reason '…'", fault.Printable(shell(eventID))))
}

// shell quotes a word for a shell where it needs that.
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
