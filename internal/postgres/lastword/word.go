package lastword

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Word is why a relay ended, or why it waits for an operator.
type Word struct {
	At       time.Time `json:"at"`
	ExitCode int       `json:"exit_code"` // 0: the process lives on and waits for an operator (on_fault: stay)
	Code     string    `json:"code"`      // operator or failed
	Sentence string    `json:"sentence"`
	Next     string    `json:"next,omitempty"`
	Commands []string  `json:"commands,omitempty"`
	Version  string    `json:"version"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`

	Told *time.Time `json:"told,omitempty"` // when the webhook was last sent it, also by an earlier process
	Over *time.Time `json:"over,omitempty"` // when the relay worked again
}

// Codes.
const (
	Operator = "operator" // an operator has to fix something
	Failed   = "failed"   // the process could not continue
)

// maxText bounds a sentence and a remedy, in bytes: the row is written again with each position.
const maxText = 2000

// Of returns the word about an error. exits reports whether the process ends on it.
func Of(err error, exits bool, who Who, now time.Time) Word {
	why, remedy := fault.Split(err)
	w := Word{
		At: now.UTC().Truncate(time.Millisecond), Code: Failed, Sentence: cut(why), Next: cut(remedy.Next),
		Version: who.Version, Host: who.Host, PID: who.PID,
	}
	if fault.KindOf(err) == fault.Operator {
		w.Code = Operator
	}
	if exits {
		w.ExitCode = fault.KindOf(err).ExitCode()
	}
	if len(remedy.Script()) <= maxText { // half of a command would be worse than none
		w.Commands = remedy.Commands
	}
	return w
}

// Who is the process that has the word.
type Who struct {
	Version string
	Host    string
	PID     int
}

// Current reports whether the relay has not worked again since. A nil word is not current.
func (w *Word) Current() bool { return w != nil && w.Over == nil }

// Same reports whether two words give the same reason.
func (w *Word) Same(other Word) bool {
	return w != nil && w.Code == other.Code && w.Sentence == other.Sentence
}

// ToldWithin reports whether the webhook was sent the word less than d before now. A clock that was put back reports
// false.
func (w *Word) ToldWithin(d time.Duration, now time.Time) bool {
	return w != nil && w.Told != nil && !w.Told.After(now) && now.Sub(*w.Told) < d
}

// Remedy returns the next step.
func (w *Word) Remedy() fault.Remedy { return fault.Remedy{Next: w.Next, Commands: w.Commands} }

// Explain says what became of the process, and why.
func (w *Word) Explain() string {
	who := fmt.Sprintf("The connector (pid %d on %s)", w.PID, w.Host)
	at := human.Time(w.At)
	if w.ExitCode == 0 {
		return fmt.Sprintf("%s has waited for an operator since %s: %s", who, at, w.Sentence)
	}
	return fmt.Sprintf("%s ended at %s with exit code %d: %s", who, at, w.ExitCode, w.Sentence)
}

func cut(text string) string {
	if len(text) <= maxText {
		return strings.ToValidUTF8(text, "�")
	}
	n := maxText
	for n > maxText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.ToValidUTF8(text[:n], "�") + "…"
}
