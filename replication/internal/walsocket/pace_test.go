package walsocket

import (
	"cmp"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server fills the kernel's queues in virtual time, at a rate, until they are full. The reader takes what is there in
// reads of at most one bufferful, each of which lets the server go on.
type server struct {
	rate    float64       // bytes per second
	holds   float64       // what the queues hold
	work    float64       // bytes per second that the reader handles
	over    time.Duration // what a sleep takes beyond what was asked for
	waiting float64
	clock   time.Time
	sent    float64
	message float64 // its bytes; 480 where it is zero

	// Other processes want the CPU, too, where this is set: both sides get it in turns of uneven lengths.
	busy  *rand.Rand
	turn  bool          // the server's
	until time.Duration // the end of the turn
	spent time.Duration
}

func (s *server) pass(d time.Duration) {
	if s.busy == nil {
		s.clock = s.clock.Add(d)
		s.waiting = min(s.holds, s.waiting+s.rate*d.Seconds())
		return
	}
	for d > 0 {
		if s.spent >= s.until {
			s.turn = !s.turn
			s.until += time.Duration(s.busy.ExpFloat64() * float64(6*time.Millisecond))
		}
		part := min(d, s.until-s.spent)
		if s.turn {
			s.waiting = min(s.holds, s.waiting+s.rate*part.Seconds())
		}
		s.clock, s.spent, d = s.clock.Add(part), s.spent+part, d-part
	}
}

// read has p's reader read for a time, and returns how fast that was, and how it slept.
func (s *server) read(p *pacer, long time.Duration) (rate float64, sleeps int, longest time.Duration) {
	begun, bytes := s.clock, 0
	for s.clock.Sub(begun) < long {
		if s.waiting < enough {
			if d := p.sleep(s.clock, int(s.waiting), int(s.sent/cmp.Or(s.message, 480))); d > 0 {
				sleeps++
				longest = max(longest, d)
				if s.busy != nil {
					d += time.Duration(s.busy.ExpFloat64() * float64(4*time.Millisecond)) // until the reader has a turn
				}
				s.pass(d + s.over)
			}
		}
		if s.waiting < 1 {
			s.pass(100 * time.Microsecond) // the read waits
			continue
		}
		n := min(s.waiting, 2*receiveBuffer)
		s.waiting -= n
		s.sent += n
		s.pass(20*time.Microsecond + time.Duration(n/s.work*float64(time.Second)))
		p.brought(int(n))
		bytes += int(n)
	}
	return float64(bytes) / s.clock.Sub(begun).Seconds(), sleeps, longest
}

const mega = 1 << 20

// TestPaceIsBoundByTheServer: whatever the queues hold and however fast the server is, sleeping costs a few per cent of
// its rate at most.
//
// Bug (stream): The reader slept 3 ms or more per bufferful, also where the server's queue held little: over a
// Unix-domain socket, or with small TCP buffers. Cost: a tenth of the rate, and on a fast machine a rate bound by the
// sleep. Also: `TestSocketOverUnixNeverSleeps` in `replication/internal/walsocket`.
func TestPaceIsBoundByTheServer(t *testing.T) {
	for name, queues := range map[string]float64{
		"as Linux comes":           4*mega + 220<<10,
		"send queue of 1 MB":       mega + 220<<10,
		"send queue of 256 KB":     476 << 10,
		"send queue of 64 KB":      284 << 10,
		"Unix-domain socket":       120 << 10,
		"less than a read's worth": 40 << 10,
	} {
		for _, rate := range []float64{12, 25, 50, 100, 200, 400} {
			t.Run(name, func(t *testing.T) {
				s := &server{rate: rate * mega, holds: queues, work: 500 * mega, clock: time.Unix(1, 0)}
				s.over = 60 * time.Microsecond
				p := &pacer{limit: first}
				s.read(p, 3*time.Second)
				const long = 4 * rest
				got, _, _ := s.read(p, long)
				never := &server{rate: rate * mega, holds: queues, work: 500 * mega, clock: time.Unix(1, 0)}
				limit, _, _ := never.read(&pacer{resting: time.Unix(1e9, 0)}, long)
				require.Greater(t, got/limit, 0.9, "%.0f of %.0f MB/s at %.0f", got/mega, limit/mega, rate)
			})
		}
	}
}

// TestPaceSleepsAsLongAsItMay: with room enough in the queues the sleeps become long, for they save the server work.
func TestPaceSleepsAsLongAsItMay(t *testing.T) {
	s := &server{rate: 100 * mega, holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0)}
	p := &pacer{limit: first}
	s.read(p, 3*time.Second)
	_, sleeps, long := s.read(p, time.Second)
	require.LessOrEqual(t, sleeps, 120)
	require.GreaterOrEqual(t, long, 9*time.Millisecond)
	require.LessOrEqual(t, long, longest)
}

// TestPaceOfLargeMessages: they fill the queues fast, and a sleep saves the server little.
//
// Bug (monitor): A sleep let as much pile up as the server's queues hold, whatever the size of the messages. Cost: on a
// fast machine, rows of 4 KB and 100 KB came at 0.9 and 0.5 of the rate of a reader that never sleeps.
func TestPaceOfLargeMessages(t *testing.T) {
	sleeps := map[float64]time.Duration{}
	for _, size := range []float64{480, 1900, 2100, 100_000} {
		s := &server{rate: 200 * mega, holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0), message: size}
		p := &pacer{limit: first}
		s.read(p, 3*time.Second)
		_, _, sleeps[size] = s.read(p, time.Second)
	}
	require.InEpsilon(t, 2, float64(sleeps[480])/float64(sleeps[2100]), .3, "%v", sleeps)
	require.InEpsilon(t, 1, float64(sleeps[480])/float64(sleeps[1900]), .3, "%v", sleeps)
	require.InEpsilon(t, 1, float64(sleeps[2100])/float64(sleeps[100_000]), .3, "%v", sleeps)
}

// TestPaceNeverSleepsAtLowLoad: rows must not wait while the server has time to spare.
func TestPaceNeverSleepsAtLowLoad(t *testing.T) {
	s := &server{rate: 3 * mega, holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0)}
	_, sleeps, _ := s.read(&pacer{limit: first}, 10*time.Second)
	require.Zero(t, sleeps)
	s.rate = 8 * mega
	_, _, long := s.read(&pacer{limit: first}, 10*time.Second)
	require.LessOrEqual(t, long, 4*time.Millisecond, "a moderate load")
}

// TestPaceWhereTheReaderIsTheSlowOne: then the queues are never dry, and nothing is asked.
func TestPaceWhereTheReaderIsTheSlowOne(t *testing.T) {
	s := &server{rate: 200 * mega, holds: 4 * mega, work: 20 * mega, clock: time.Unix(1, 0)}
	p := &pacer{limit: first}
	s.read(p, time.Second)
	_, sleeps, _ := s.read(p, time.Second)
	require.Zero(t, sleeps)
}

// TestPaceOfMixedRows: small rows and large ones by turns, and queues that hold all that a sleep lets pile up: no sleep
// is too long, though the sleeps follow the rate.
func TestPaceOfMixedRows(t *testing.T) {
	for _, rates := range [][2]float64{{60, 120}, {60, 250}, {100, 400}} {
		for _, phase := range []time.Duration{60 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond} {
			s := &server{holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0)}
			p := &pacer{limit: first, late: true}
			messages, short, all := 0.0, 0, 0
			for begun := s.clock; s.clock.Sub(begun) < 20*time.Second; all++ {
				s.rate, s.message = rates[all%2]*mega, 300+float64(all%2)*3700
				s.sent = messages * s.message
				s.read(p, phase)
				messages = s.sent / s.message
				if p.limit < 4*time.Millisecond {
					short++
				}
			}
			require.LessOrEqual(t, short, all/10, "%v MB/s, turns of %s: of %d", rates, phase, all)
		}
	}
}

// TestPaceOverALongWay: there the kernel sizes the buffer by what is read in a round trip.
func TestPaceOverALongWay(t *testing.T) {
	sleeps := map[bool]time.Duration{}
	for _, far := range []bool{false, true} {
		s := &server{rate: 200 * mega, holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0)}
		p := &pacer{limit: first, far: far}
		s.read(p, 3*time.Second)
		_, _, sleeps[far] = s.read(p, time.Second)
	}
	require.InEpsilon(t, 2, float64(sleeps[false])/float64(sleeps[true]), .3, "%v", sleeps)
}

// TestPaceFindsItsLengthAgain: a queue that becomes smaller, as after a failover to another host, and larger again.
func TestPaceFindsItsLengthAgain(t *testing.T) {
	s := &server{rate: 100 * mega, holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0)}
	p := &pacer{limit: first}
	s.read(p, 3*time.Second)
	s.holds = 284 << 10
	s.read(p, 3*time.Second)
	small, _, short := s.read(p, time.Second)
	require.Greater(t, small, 80.0*mega)
	require.Less(t, short, 5*time.Millisecond)
	s.holds = 4 * mega
	s.read(p, 3*time.Second)
	_, _, long := s.read(p, time.Second)
	require.GreaterOrEqual(t, long, 9*time.Millisecond)
}

// TestPaceOnABusyMachine: where other processes want the CPU, too, what a sleep brings is chance. Short sleeps would
// cost more CPU, of both sides, where it lacks already.
//
// Bug (monitor): The reader took what other processes did to the server for a sign that its sleeps did not pay. Cost:
// on a busy machine it was woken for each row: 21 k rows/s, with 11 s of CPU per million rows where 1.6 is usual.
func TestPaceOnABusyMachine(t *testing.T) {
	for seed := range int64(8) {
		s := &server{rate: 100 * mega, holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0)}
		s.over, s.busy = 60*time.Microsecond, rand.New(rand.NewSource(seed))
		p := &pacer{limit: first, late: true}
		short := 0
		for range 100 {
			s.read(p, 100*time.Millisecond)
			if p.limit < 5*time.Millisecond {
				short++
			}
		}
		require.LessOrEqual(t, short, 10, "seed %d: tenths of a second, of 100, with short sleeps", seed)
	}
}

// TestPaceSleepsWhereRowsAreLate: however few bytes come, they were committed long ago.
//
// Bug (monitor): A stream of small rows, or of a server without CPU to spare, counted as low load by its bytes. Cost: a
// backlog was read row by row. Also: `TestLateTransactions` in `replication`.
func TestPaceSleepsWhereRowsAreLate(t *testing.T) {
	s := &server{rate: mega, holds: 4 * mega, work: 500 * mega, clock: time.Unix(1, 0)}
	p := &pacer{limit: first, late: true}
	_, sleeps, long := s.read(p, 3*time.Second)
	require.Greater(t, sleeps, 100)
	require.GreaterOrEqual(t, long, first)
	p.late = false
	_, sleeps, _ = s.read(p, 3*time.Second)
	require.Zero(t, sleeps)
}
