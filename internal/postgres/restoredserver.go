package postgres

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// A server whose disk was put back to an older copy has the same system identifier and the same timeline, and once its
// log has grown past the old position nothing in its log shows that the log was another one. What does is a number that
// only grows: each write of the checkpoint's row counts one up, and the number is then kept outside of that server as
// well, in a Mark. The row is written first, durably. So a number that is lower in the row than in a mark was written
// by a server that no longer exists.

// Mark is what is kept outside of the server about one write of the checkpoint's row.
type Mark struct {
	SystemID string
	Timeline int32
	Writes   int64   // the row's number then; 0: the row has no numbers
	Position lsn.LSN // the row's position then
	// Published is the highest commit record of which events may be published. Events at a lower position are in Kafka.
	Published lsn.LSN
	At        time.Time // of the write
}

// MarkOf joins a mark with the position up to which transactions of Kafka have published, 0 for none: that is
// published, whatever the mark says. The number counts on every timeline.
func MarkOf(systemID string, timeline int32, commit lsn.LSN, m Mark) Mark {
	if commit == 0 && m.Writes == 0 {
		return Mark{}
	}
	m.SystemID = systemID
	switch {
	case commit == 0:
	case timeline == m.Timeline:
		m.Published = max(m.Published, commit)
	default:
		m.Timeline, m.Published = timeline, commit
	}
	return m
}

// MarkedServer is what a mark is compared with: the server as it is now.
type MarkedServer struct {
	ServerPosition
	InRecovery bool
	HotStandby bool             // the slot is, or was before a promotion, on this very server as a hot standby
	Version    int              // server_version_num
	Past       []TimelineSwitch // of the server's timeline; nil where it is unknown
	Slot       Slot
	Row        *Checkpoint // nil: no checkpoint is in use
}

// Verdict says how a server's history relates to a mark.
type Verdict uint8

const (
	// SameHistory: all that the mark says is part of the server's history.
	SameHistory Verdict = iota
	// FailedOver: the server is a standby that was promoted before it had everything that was published. Its slot came
	// along, so no event of its own is missed.
	FailedOver
	// Restored: the server was put back to an older state.
	Restored
)

// Compare relates the server to a mark of the same cluster. This is the whole rule:
//
//   - On the mark's timeline the row's number must not be lower than the mark's. Where the row has no number (it is
//     new, or written by an earlier version), its position has to be past what the mark says is published. And nothing
//     can be published that lies beyond the end of a primary's log.
//   - The server's timeline branched off the mark's timeline: what was published before the branch is in both. What was
//     published after it does not exist on this server. That is the lot of a standby that was promoted while it lagged,
//     if the slot was there before the branch: as a synchronized slot from 17 on, before that as a copy that some tool
//     keeps up to date. Every other slot is of a server that was recovered to a point in time, or restored.
//   - The mark's timeline is not in the server's past: the server was put back to before the promotion, or another
//     standby was promoted as well.
//
// A slot on a hot standby passes on what that very server has replayed, and goes on when the server is promoted, so no
// event of it can be missing there.
//
// The flag failover of a slot proves nothing: the disk image of a primary has it, too.
func (m Mark) Compare(s MarkedServer) Verdict {
	switch {
	case m == Mark{}:
		return SameHistory
	case m.Timeline == s.Timeline:
		return m.compareSame(s)
	}
	at, known := switchOf(s.Past, m.Timeline)
	switch {
	case s.Past == nil && s.Row != nil && m.Writes > 0 && s.Row.Writes >= m.Writes:
		return SameHistory // the history file is missing, and the number speaks for itself
	case !known:
		return Restored
	case m.Published < at || s.HotStandby:
		return SameHistory
	case s.Slot.ConfirmedFlush <= at && (s.Version < firstSynchronizedSlots || s.Slot.Synced):
		return FailedOver
	}
	return Restored
}

// firstSynchronizedSlots is the first version in which a standby keeps copies of slots (Postgres docs 47.2.3).
const firstSynchronizedSlots = 170000

func (m Mark) compareSame(s MarkedServer) Verdict {
	row := s.Row
	switch {
	case !s.InRecovery && s.WALEnd != 0 && m.Published >= s.WALEnd:
		return Restored
	case row == nil || m.Writes == 0 || row.Writes >= m.Writes:
		return SameHistory
	case row.Writes == 0 && m.Published < row.Position && m.Position <= row.Position:
		return SameHistory
	}
	return Restored
}

// Judge is Compare with an error for a server that must not be read from. holder says where the mark is, as the subject
// of a sentence: "this connector".
func (m Mark) Judge(o Objects, holder string, s MarkedServer) (failedOver bool, err error) {
	switch m.Compare(s) {
	case SameHistory:
		return false, nil
	case FailedOver:
		return true, nil
	}
	f := &fault.Error{Object: o.SlotSubject(), At: m.Published.String()}
	what := ""
	at, known := switchOf(s.Past, m.Timeline)
	switch {
	case m.Timeline == s.Timeline && s.Row != nil && s.Row.Writes < m.Writes:
		what = fmt.Sprintf("table %s has write %d of the slot's row, and %s knows of write "+
			"%d", o.Checkpoint, s.Row.Writes,
			holder, m.Writes)
	case m.Timeline == s.Timeline:
		what = fmt.Sprintf("its log ends at %s, and %s knows of events beyond that", s.WALEnd, holder)
	case known:
		what = fmt.Sprintf("its timeline %d branched off timeline %d at %s, before events that %s knows of, and the "+
			"slot is "+
			"not one that a standby had kept", s.Timeline, m.Timeline, at, holder)
	default:
		what = fmt.Sprintf("it is on timeline %d, to which timeline %d, which %s knows of, did not lead", s.Timeline,
			m.Timeline, holder)
	}
	f.Err = fmt.Errorf("%s. Kafka has events up to %s%s that this server may not have", what, m.Published, m.when())
	return false, RestoredFault(f)
}

// RestoredFault completes the refusal of a server that was put back to an older state. The error says what shows it.
func RestoredFault(f *fault.Error) *fault.Error {
	f.Kind, f.Err = fault.Operator, fmt.Errorf("the server was put back to an older state: %w", f.Err)
	return f.With(fault.Do("If postgres.dsn leads to the wrong server, correct it. If the server was restored on "+
		"purpose, look at what is known, accept the slot, and start the connector again. Events that only Kafka has "+
		"stay there; events that the server still has to send again are published twice.",
		"cdc-outbox slot", "cdc-outbox slot accept"))
}

// when says when the mark's row was written.
func (m Mark) when() string {
	if m.At.IsZero() {
		return ""
	}
	return ", written at " + human.Time(m.At) + ","
}
