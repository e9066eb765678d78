package standbys

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// server is what the gate asks.
type server struct {
	mu    sync.Mutex
	look  Look
	err   error
	asked int
	slow  time.Duration // before it answers
}

// ask answers after a while.
//
//waits:bubble
func (s *server) ask(context.Context) (*Look, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	l := s.look
	time.Sleep(s.slow)
	return &l, s.err
}

func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) log(inserted, flushed lsn.LSN, standbys ...Sender) {
	s.change(func() { s.look.inserted, s.look.flushedTo, s.look.Senders = inserted, flushed, standbys })
}

const pid = 7

// running is a gate at work that follows a stream.
func running(t *testing.T, d Demand) (*Gate, *server, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	s := &server{look: Look{MaySee: true, Role: "r", HolderPID: pid}}
	g := New(Config{Demand: d, Logger: zap.New(core), Patience: 5 * time.Second})
	g.askServer = s.ask
	done := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	g.Follow(pid)
	return g, s, logs
}

func passes(done <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

var one = Demand{Names: []string{"a"}}

func TestGateWaitsForTheEndOfTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, _ := running(t, one)
		s.log(300, 200, standby("a", 150))
		done := g.Ask(100, time.Now())
		time.Sleep(time.Second)
		require.False(t, passes(done), "the record that begins at 100 may end at 200, and the standby has a part")
		s.log(400, 400, standby("a", 199))
		time.Sleep(time.Second)
		require.False(t, passes(done))
		s.log(400, 400, standby("a", 200))
		time.Sleep(time.Second)
		require.True(t, passes(done), "what was flushed when it was asked for is enough")
		require.False(t, g.Passed(250))
		require.InDelta(t, 2, g.Waited().Seconds(), 0.2)

		s.log(500, 400, standby("a", 400))
		done = g.Ask(350, time.Now())
		require.True(t, passes(done))
		require.True(t, g.Passed(399), "a record that begins before an insert position ends there or before")
		require.False(t, g.Passed(400))
	})
}

func TestGateAsksOnlyWhileSomethingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, _ := running(t, one)
		s.log(300, 200, standby("a", 150))
		time.Sleep(time.Hour)
		s.change(func() { require.LessOrEqual(t, s.asked, 5, "once for the stream"); s.asked = 0 })
		done := g.Ask(100, time.Now())
		time.Sleep(10 * time.Second)
		s.change(func() { require.InDelta(t, 100, s.asked, 10); s.asked = 0 })
		g.Withdraw()
		time.Sleep(time.Hour)
		s.change(func() { require.LessOrEqual(t, s.asked, 1) })
		require.False(t, passes(done))
		require.Empty(t, g.Waits())
	})
}

func TestGateNamesWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, logs := running(t, Demand{Names: []string{"a", "b"}})
		s.log(300, 200, standby("a", 300))
		done := g.Ask(100, time.Now())
		require.Empty(t, g.Waits(), "a moment is nothing to report")
		for _, c := range []struct {
			want   string
			change func()
		}{
			{`no standby with the application_name "b" is connected`, func() {}},
			{`standby "b" is connected and not yet up to date (state catchup)`, func() {
				s.look.Senders = append(s.look.Senders, catchingUp("b", 0x400))
			}},
			{`standby "b" has flushed 0/40`, func() { s.look.Senders[1] = standby("b", 0x40) }},
			{`role "r" may not see`, func() { s.look.MaySee = false }},
			{"does not serve the stream", func() { s.look.HolderPID = 8 }},
			{"does not say how far the standbys are: broken", func() { s.err = errors.New("broken") }},
		} {
			s.change(c.change)
			time.Sleep(2 * time.Second)
			w := g.Waits()
			require.Len(t, w, 1, c.want)
			require.Contains(t, w[0].Reason, c.want)
			require.Equal(t, Wait, w[0].Kind)
			since, _, ok := g.Held()
			require.True(t, ok)
			require.Equal(t, since, w[0].Since)
			require.False(t, passes(done), c.want)
		}
		require.Equal(t, 1, logs.FilterMessageSnippet("nothing is published").Len())
		s.change(func() { s.look.MaySee, s.look.HolderPID, s.err = true, pid, nil })
		s.log(300, 200, standby("a", 300), standby("b", 300))
		time.Sleep(time.Second)
		require.True(t, passes(done))
		require.Empty(t, g.Waits())
		require.Equal(t, 1, logs.FilterMessageSnippet("publishing no longer waits").Len())
	})
}

// A stream may be dead without a sign, while nothing is read from it.
func TestGateDoubtsTheStreamWhereAnotherSessionHasTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, _ := running(t, one)
		s.log(300, 200, standby("a", 150))
		g.Ask(100, time.Now())
		doubted := func(within time.Duration) bool {
			time.Sleep(within)
			select {
			case <-g.Elsewhere():
				return true
			default:
				return false
			}
		}
		require.False(t, doubted(time.Minute), "the standby is late")
		s.change(func() { s.look.HolderPID = 0 })
		require.False(t, doubted(4*time.Second), "a stream that is replaced looks so for a moment")
		require.True(t, doubted(4*time.Second))
		require.False(t, doubted(time.Second))
		require.True(t, doubted(10*time.Second), "it lasts")
		time.Sleep(10 * time.Second)
		s.change(func() { s.look.HolderPID = pid })
		require.False(t, doubted(10*time.Second), "it is over")
		s.change(func() { s.look.HolderPID = 0 })
		time.Sleep(10 * time.Second)
		g.Follow(8)
		require.False(t, doubted(10*time.Second), "nothing waits")
		s.change(func() { s.err = errors.New("broken") })
		g.Ask(100, time.Now())
		require.False(t, doubted(time.Minute), "no server answers")
	})
}

// Positions of one server say nothing about another one.
func TestGateForgetsWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, _ := running(t, one)
		s.log(300, 300, standby("a", 300))
		require.True(t, passes(g.Ask(100, time.Now())))
		require.True(t, g.Passed(200))
		g.Follow(8)
		require.False(t, g.Passed(200))
		done := g.Ask(200, time.Now())
		time.Sleep(time.Second)
		require.False(t, passes(done), "the old server still answers")
		s.log(300, 300, standby("a", 150))
		s.change(func() { s.look.HolderPID = 8 })
		time.Sleep(time.Second)
		require.False(t, passes(done), "on the new one the standby has less")
		s.log(300, 300, standby("a", 300))
		time.Sleep(time.Second)
		require.True(t, passes(done))
	})
}

// An answer that arrives after the stream has changed counts for neither stream.
func TestGateDropsAnAnswerOfTheStreamBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, _ := running(t, one)
		s.log(300, 300, standby("a", 300))
		s.change(func() { s.slow = 5 * time.Second })
		g.Ask(100, time.Now())
		time.Sleep(time.Second)
		g.Follow(8)
		time.Sleep(time.Minute)
		require.False(t, g.Passed(200))
		require.Empty(t, g.Waits())
	})
}

// What the server did for the standbys counts only as long as it is known to do it.
func TestGateWaitsAgainWhereItCannotSee(t *testing.T) {
	for name, change := range map[string]func(*server){
		"no answer": func(s *server) { s.err = errors.New("broken") },
		"no rights": func(s *server) { s.look.MaySee = false },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s, _ := running(t, Demand{Names: []string{AsServer}})
				s.log(300, 200)
				require.True(t, passes(g.Ask(100, time.Now())), "synchronous_standby_names is empty")
				require.True(t, g.Passed(5000))
				s.change(func() { change(s) })
				time.Sleep(2 * time.Second)
				require.False(t, g.Passed(5000))
			})
		})
	}
}

// A stream that the server holds back brings nothing that would ask.
//
// Bug (standbys): The server held a slot with failover back for a standby that was away, and nothing reported it. Cost:
// events that did not arrive, and a connector that was ready.
func TestGateNamesWhatTheServerWaitsFor(t *testing.T) {
	for _, names := range [][]string{nil, {"a"}} {
		synctest.Test(t, func(t *testing.T) {
			g, s, logs := running(t, Demand{Names: names})
			s.log(300, 200)
			s.change(func() { s.look.Failover, s.look.HeldSlots, s.look.MaySee = true, "slot_a, slot_b", names != nil })
			s.change(func() { s.look.Active = []string{"slot_b"} })
			time.Sleep(10 * time.Second)
			require.Len(t, g.Waits(), 1, names)
			require.Contains(t, g.Waits()[0].Reason, `no standby uses slot "slot_a"`)
			_, why, ok := g.Held()
			require.True(t, ok)
			require.Equal(t, g.Waits()[0].Reason, why)
			require.Equal(t, 1, logs.FilterMessageSnippet("nothing is published").Len())
			require.Equal(t, names == nil, g.Passed(5000))
			s.change(func() { s.look.Active = []string{"slot_a", "slot_b"} })
			time.Sleep(2 * time.Second)
			require.Empty(t, g.Waits())
			g.Follow(0)
			s.change(func() { s.asked = 0 })
			time.Sleep(time.Hour)
			s.change(func() { require.LessOrEqual(t, s.asked, 1, "there is no stream") })
		})
	}
}

func TestGateStepsBackForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, logs := running(t, one)
		a := standby("a", 150)
		a.Slot = "slot_a"
		s.log(300, 200, a)
		s.change(func() { s.look.Failover, s.look.HeldSlots, s.look.Active = true, "slot_a", []string{"slot_a"} })
		require.True(t, passes(g.Ask(100, time.Now())))
		require.True(t, g.Passed(5000))
		for range 3 {
			g.Follow(pid)
			require.True(t, passes(g.Ask(100, time.Now())))
		}
		require.Equal(t, 1, logs.FilterMessageSnippet("the server holds the stream back").Len(), "said once")

		s.log(300, 200) // the standby is away, and the server waits for it
		s.change(func() { s.look.Active = nil })
		time.Sleep(3 * time.Second)
		require.Len(t, g.Waits(), 1)
		require.Contains(t, g.Waits()[0].Reason, `no standby uses slot "slot_a"`)
		require.True(t, g.Passed(5000))

		s.log(300, 200, a)
		s.change(func() { s.look.HeldSlots = "" }) // an operator takes the setting away
		time.Sleep(2 * time.Second)
		require.False(t, g.Passed(5000))
		require.Empty(t, g.Waits())
	})
}
