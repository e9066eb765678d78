package connector

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	keptAside  = 20  // rows
	clippedIDs = 200 // bytes of an id or a topic: a row may hold any text there
)

// SetAside is a row that was not published as it is: what a policy other than halt did, for /status. It names the row and
// holds nothing of it.
type SetAside struct {
	EventID string    `json:"event_id"`
	Action  BadRow    `json:"action"`          // dead_letter or skip
	Reason  string    `json:"reason"`          // one word of a closed list
	Topic   string    `json:"topic,omitempty"` // the one it was meant for, where it had one
	LSN     string    `json:"lsn"`             // of its commit
	At      time.Time `json:"at"`
}

// setAside keeps the latest. The dead-letter topic has them all; this is for who looks right now.
type setAside struct {
	mu   sync.Mutex
	rows []SetAside // the oldest first
}

func (s *setAside) add(id string, action BadRow, reason router.Reason, topic, lsn string) {
	row := SetAside{EventID: clipped(id), Action: action, Reason: string(reason), Topic: clipped(topic), LSN: lsn, At: time.Now().UTC()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) == keptAside {
		s.rows = slices.Delete(s.rows, 0, 1)
	}
	s.rows = append(s.rows, row)
}

// latest lists them, the latest first.
func (s *setAside) latest() []SetAside {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.rows)
	slices.Reverse(all)
	return append([]SetAside{}, all...) // in JSON an empty list, not null
}

// clipped is a copy that keeps nothing else of the row in memory.
func clipped(text string) string {
	if len(text) <= clippedIDs {
		return strings.Clone(text)
	}
	cut := clippedIDs
	for cut > clippedIDs-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
