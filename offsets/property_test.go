package offsets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// schedule drives the tracker and the reference through the same random, legal events.
type schedule struct {
	t    *testing.T
	r    *rand.Rand
	tr   *Tracker
	ref  *reference
	log  []scheduledTx
	trim strings.Builder // what happened

	next, row int // the stream's place in log; row 0 before Begin, row n+1 before the Commit after n rows
	sentEnd   LSN
	held      []heldRow
	stale     []Ticket
	finished  []LSN
}

type scheduledTx struct {
	commit, end LSN
	rows        int
	sent        bool
}

type heldRow struct {
	ticket Ticket
	tx     *referenceTx
	index  int
}

func newSchedule(t *testing.T, seed uint64) *schedule {
	s := &schedule{t: t, r: rand.New(rand.NewPCG(seed, 0))}
	start := LSN(1 + s.r.IntN(50))
	for commit := start; len(s.log) < 40; {
		tx := scheduledTx{commit: commit, end: commit + LSN(1+s.r.IntN(9)), rows: max(0, s.r.IntN(7)-2)}
		tx.sent = tx.rows > 0 || s.r.IntN(2) == 0
		s.log = append(s.log, tx)
		commit = tx.end + LSN(s.r.IntN(2)*s.r.IntN(20)) // often back to back
	}
	s.next = s.r.IntN(10)
	s.sentEnd = s.log[s.next].commit
	s.tr, s.ref = NewTracker(s.sentEnd), &reference{base: s.sentEnd}
	return s
}

func (s *schedule) say(format string, args ...any) { fmt.Fprintf(&s.trim, format+"; ", args...) }

func (s *schedule) event() {
	switch n := s.r.IntN(100); {
	case n < 60:
		s.message()
	case n < 80:
		s.acks()
	case n < 90:
		s.say("keepalive %d", s.sentEnd)
		s.tr.Observe(s.sentEnd)
		s.ref.observe(s.sentEnd)
	case n < 98:
		s.resume()
	default:
		s.rewind()
	}
}

func (s *schedule) message() {
	if s.next == len(s.log) {
		return
	}
	tx := &s.log[s.next]
	switch {
	case !tx.sent:
		s.next, s.sentEnd = s.next+1, tx.end
	case s.row == 0:
		s.say("begin %d", tx.commit)
		require.NoError(s.t, s.tr.Begin(tx.commit, at(tx.commit)))
		s.ref.begin(tx.commit)
		s.row++
	case s.row <= tx.rows:
		s.say("row")
		s.row++
		pos, ticket, fresh, err := s.tr.Add()
		require.NoError(s.t, err)
		index := s.ref.index
		wantPos, wantFresh := s.ref.add()
		require.Equal(s.t, wantPos, pos)
		require.Equal(s.t, wantFresh, fresh)
		if fresh {
			s.held = append(s.held, heldRow{ticket: ticket, tx: s.ref.open, index: index})
		}
	default:
		s.say("commit %d", tx.end)
		require.NoError(s.t, s.tr.Commit(tx.end))
		s.ref.commitTx(tx.end)
		s.next, s.row, s.sentEnd = s.next+1, 0, tx.end
	}
}

// acks acknowledges some rows in any order, among acks of earlier sessions.
func (s *schedule) acks() {
	var batch []Ticket
	for range s.r.IntN(6) {
		if len(s.held) > 0 {
			i := s.r.IntN(min(len(s.held), 8))
			h := s.held[i]
			s.held = slices.Delete(s.held, i, i+1)
			h.tx.acked[h.index] = true
			batch = append(batch, h.ticket)
			s.say("ack %d/%d", h.tx.commit, h.index)
		}
	}
	if len(s.stale) > 0 {
		batch = append(batch, s.stale[0])
		s.stale = s.stale[1:]
	}
	require.NoError(s.t, s.tr.Ack(batch, func(commitTime time.Time, rows int) {
		commit := LSN(commitTime.UnixMicro())
		s.finished = append(s.finished, commit)
		if tx := s.ref.find(commit); tx != nil {
			require.Len(s.t, tx.acked, rows)
		}
	}))
	got, want := s.finished, s.ref.newlyFinished()
	slices.Sort(got)
	require.Equal(s.t, want, got)
	s.finished = nil
}

// resume breaks the stream. The next one starts at Confirmed as it was just now, or before some acks, or lower.
func (s *schedule) resume() {
	from := s.tr.Confirmed()
	s.say("resume")
	s.tr.Resume()
	s.ref.open = nil
	switch s.r.IntN(3) {
	case 0:
		s.acks()
	case 1:
		s.acks()
		from = s.tr.Confirmed()
	default:
		from -= min(from-1, LSN(s.r.IntN(60)))
	}
	s.start(from)
}

// rewind goes back to some transaction's end, or forward to Confirmed.
func (s *schedule) rewind() {
	s.acks() // so that the reference's finished transactions are reported before they are forgotten
	to := s.tr.Confirmed()
	if i := s.r.IntN(len(s.log)); s.log[i].end < to {
		to = s.log[i].end
	}
	s.say("rewind %d", to)
	s.tr.Rewind(to)
	s.ref = &reference{base: to}
	for _, h := range s.held {
		s.stale = append(s.stale, h.ticket)
	}
	s.held = nil
	s.start(to)
}

func (s *schedule) start(from LSN) {
	s.say("start %d", from)
	s.next, s.row, s.sentEnd = 0, 0, from
	for s.next < len(s.log) && s.log[s.next].commit < from {
		s.next++
	}
}

// compared is what both say.
type compared struct {
	confirmed         LSN
	open              bool
	rows, unconfirmed int
	oldest            int64
}

func (s *schedule) compare() {
	want := compared{confirmed: s.ref.confirmed(), open: s.ref.isOpen()}
	var oldest time.Time
	want.rows, want.unconfirmed, oldest = s.ref.outstanding()
	want.oldest = oldest.UnixMicro()
	got := compared{confirmed: s.tr.Confirmed(), open: s.tr.Open(), unconfirmed: s.tr.Unconfirmed()}
	got.rows, oldest, _ = s.tr.Outstanding()
	got.oldest = oldest.UnixMicro()
	if got != want { // require.Equal is slow
		require.Equal(s.t, want, got)
	}
	// One entry per transaction with an unacknowledged row, and one for a transaction that is open.
	if n := s.tr.Snapshot().Transactions; n > want.rows+1 {
		require.LessOrEqual(s.t, n, want.rows+1)
	}
}

// TestTrackerEqualsReference: whatever legal happens, the tracker says what a tracker that keeps everything says.
func TestTrackerEqualsReference(t *testing.T) {
	schedules := 2000
	if testing.Short() || underRace {
		schedules = 200
	}
	for seed := range uint64(schedules) {
		s := newSchedule(t, seed)
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %s", seed, s.trim.String())
				}
			}()
			for range 300 {
				s.event()
				s.compare()
			}
		}()
	}
}
