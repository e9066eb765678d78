package fault

import (
	"strings"
	"time"
)

// Wait is one thing that a process waits for and that an operator may have to fix, as /status lists it.
type Wait struct {
	Kind     string    `json:"kind"`
	Object   string    `json:"object"`
	Reason   string    `json:"reason"`
	Next     string    `json:"next"`
	Commands []string  `json:"commands,omitempty"` // to paste for it, see Remedy
	Since    time.Time `json:"since,omitzero"`     // zero: not known
}

// Remedy returns the next step.
func (w Wait) Remedy() Remedy { return Remedy{Next: w.Next, Commands: w.Commands} }

// Sentence is the object and the reason, or the reason alone if it begins with the object, as in "The broker at
// kafka-1:9092 refuses connections."
func (w Wait) Sentence() string {
	what, _, _ := strings.Cut(w.Object, " ")
	what = strings.TrimSuffix(what, "s")
	if strings.HasPrefix(w.Reason, "The "+what+" at ") || strings.HasPrefix(w.Reason, "One of the "+what+"s ") {
		return w.Reason
	}
	return w.Object + ": " + w.Reason
}
