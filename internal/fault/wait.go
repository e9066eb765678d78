package fault

import "time"

// Wait is one thing that a process waits for and that somebody outside of it may have to mend, as /status lists it.
type Wait struct {
	Kind   string    `json:"kind"`
	Object string    `json:"object"`
	Reason string    `json:"reason"`
	Next   string    `json:"next"`
	Since  time.Time `json:"since"`
}
