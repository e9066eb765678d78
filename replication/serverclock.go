package replication

import (
	"math"
	"time"
)

// ServerNow is the time by the server's clock, which gives transactions their commit times; ours while nothing is known
// of it.
func (s *Stream) ServerNow() time.Time {
	return time.Now().Add(s.serverAhead())
}

// serverAhead is by how much the server's clock is ahead of ours, 0 while nothing is known of it.
func (s *Stream) serverAhead() time.Duration {
	if ahead := s.ahead.Load(); ahead != noClock {
		return time.Duration(ahead)
	}
	return 0
}

// sawClock takes the time at which the server sent a keepalive, in microseconds since 2000. A message that arrives late
// shows the server's clock too early, so the largest difference is closest to the truth.
func (s *Stream) sawClock(sent int64) {
	if sent <= 0 {
		return
	}
	ahead := time.Until(time.UnixMicro(sent + postgresEpoch))
	if int64(ahead) > s.ahead.Load() {
		s.ahead.Store(int64(ahead))
	}
}

const (
	postgresEpoch = 946_684_800_000_000 // 2000-01-01, in microseconds of Unix time
	noClock       = math.MinInt64
)

// lateAfter is the age of a transaction from which on it is late: the server has more, or it lacks the CPU to send it.
const lateAfter = 250 * time.Millisecond

// isLate reports whether a transaction was committed long before it arrived.
func (s *Stream) isLate(committed time.Time) bool {
	return s.readAt.Sub(committed)+s.serverAhead() > lateAfter
}

func (s *Stream) setLate(late bool) {
	if late != s.late {
		s.late = late
		s.onLate(late)
	}
}
