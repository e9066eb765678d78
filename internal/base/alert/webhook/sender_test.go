package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// receiver is the other side: it takes, fails or hangs as the test says.
type receiver struct {
	mu     sync.Mutex
	bodies []string
	err    error
	hangs  bool
	tries  int
	during func() // called once, within the first request
}

// post takes a message, or hangs.
//
//waits:bubble
func (r *receiver) post(ctx context.Context, _ string, body []byte) error {
	r.mu.Lock()
	r.tries++
	hangs, err := r.hangs, r.err
	if !hangs && err == nil {
		r.bodies = append(r.bodies, string(body))
	}
	during := r.during
	r.during = nil
	r.mu.Unlock()
	if during != nil {
		during()
	}
	if hangs {
		select {
		case <-ctx.Done():
		case <-time.After(requestTimeout):
		}
		return errors.New("there was no answer in time")
	}
	return err
}

func (r *receiver) close() {}

func (r *receiver) set(err error, hangs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.hangs = err, hangs
}

func (r *receiver) count() (tries, taken int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries, len(r.bodies)
}

// got is "alert state level" for each that was taken.
func (r *receiver) got(t *testing.T) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, b := range r.bodies {
		var m message
		require.NoError(t, json.Unmarshal([]byte(b), &m))
		out = append(out, fmt.Sprintf("%s %s %s", m.Alert, m.State, m.Level))
	}
	return out
}

func event(name string, state alert.State, level alert.Level) alert.Event {
	return alert.Event{Alert: name, Subject: "s", State: state, Level: level, Since: time.Now(), At: time.Now()}
}

func begin(t *testing.T, format string) (*Sender, *receiver, *observer.ObservedLogs, func()) {
	core, logs := observer.New(zap.DebugLevel)
	r := &receiver{}
	s := New(Config{
		URL: func() (string, error) { return "http://secret", nil }, Format: format, Runbook: section,
		Logger: zap.New(core), Registerer: prometheus.NewRegistry(),
	})
	s.client = r
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, r, logs, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

const (
	firing   = alert.Firing
	resolved = alert.Resolved
	warn     = alert.Warn
	critical = alert.Critical
)

func TestEachEventOnceInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, logs, stop := begin(t, "json")
		for _, e := range []alert.Event{event("a", firing, warn), event("b", firing, critical)} {
			s.Send(e)
		}
		time.Sleep(time.Hour)
		s.Send(event("a", firing, critical))
		time.Sleep(time.Second)
		s.Send(event("a", resolved, critical))
		time.Sleep(time.Hour)
		stop()
		require.Equal(t, []string{"a firing warn", "b firing critical", "a firing critical", "a resolved critical"},
			r.got(t))
		require.Equal(t, 4, r.tries)
		require.Zero(t, logs.Len())
		require.Equal(t, 4.0, testutil.ToFloat64(s.sent["sent"]))
	})
}

func TestTheLatestStateWinsAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, logs, stop := begin(t, "json")
		r.set(errors.New("connection refused"), false)
		s.Send(event("a", firing, warn))
		time.Sleep(time.Minute)
		s.Send(event("b", firing, warn))
		s.Send(event("a", firing, critical))
		time.Sleep(10 * time.Minute)
		s.Send(event("b", resolved, warn))
		time.Sleep(time.Minute)
		tries, _ := r.count()
		require.Less(t, tries, 40, "with backoff")
		require.Greater(t, tries, 8)
		r.set(nil, false)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"a firing critical", "b resolved warn"}, r.got(t))
		require.Equal(t, 1, logs.FilterMessageSnippet("cannot deliver").Len())
		require.Equal(t, 1, logs.FilterMessageSnippet("takes alerts again").Len())
		stop()
		require.Len(t, r.got(t), 2)
	})
}

func TestAHangingReceiverHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, _, stop := begin(t, "json")
		r.set(nil, true)
		began := time.Now()
		for i := range 3 * capacity {
			s.Send(event(fmt.Sprint("a", i), firing, warn))
		}
		require.Zero(t, time.Since(began), "Send does not wait")
		s.mu.Lock()
		require.Len(t, s.pending, capacity, "bounded")
		s.mu.Unlock()
		time.Sleep(time.Minute)
		began = time.Now()
		stop()
		require.LessOrEqual(t, time.Since(began), lastWords, "nor does the end")
	})
}

func TestWhatWaitsIsSentAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, _, stop := begin(t, "json")
		r.set(errors.New("away"), false)
		s.Send(event("a", firing, warn))
		s.Send(event("b", firing, warn))
		time.Sleep(time.Minute)
		r.set(nil, false)
		stop()
		require.Equal(t, []string{"a firing warn", "b firing warn"}, r.got(t))
	})
}

// TestTheEndOfWhatAnotherProcessBegan: a receiver that keeps states has to hear of it, people have not.
func TestTheEndOfWhatAnotherProcessBegan(t *testing.T) {
	for format, want := range map[string]int{"json": 1, "alertmanager": 1, "slack": 0} {
		synctest.Test(t, func(t *testing.T) {
			s, r, _, stop := begin(t, format)
			s.Send(event("a", resolved, critical))
			stop()
			require.Len(t, r.bodies, want, format)
		})
	}
}

func TestARefusedEventDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, logs, stop := begin(t, "json")
		r.set(refusal{400}, false)
		s.Send(event("a", firing, warn))
		time.Sleep(time.Second)
		r.set(nil, false)
		s.Send(event("b", firing, warn))
		time.Sleep(time.Hour)
		stop()
		require.Equal(t, []string{"b firing warn"}, r.got(t))
		require.Equal(t, 1, logs.FilterMessageSnippet("refuses").Len())
	})
}

// TestAChangeDuringTheRequest: what comes while the alert's previous state is being sent is sent, too.
func TestAChangeDuringTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, _, stop := begin(t, "alertmanager")
		r.during = func() { s.Send(event("a", firing, critical)) }
		s.Send(event("a", firing, warn))
		time.Sleep(time.Second)
		stop()
		require.Len(t, r.bodies, 2)
		require.Contains(t, r.bodies[1], `"severity":"warning"`, "the milder one ends")
		require.Contains(t, r.bodies[1], `"severity":"critical"`)
	})
}

func TestAlertmanagerIsToldAgainWhatFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, _, stop := begin(t, "alertmanager")
		s.Send(event("a", firing, warn))
		time.Sleep(10*time.Minute + time.Second)
		_, taken := r.count()
		require.Equal(t, 11, taken)
		s.Send(event("a", resolved, warn))
		time.Sleep(10 * time.Minute)
		stop()
		require.Len(t, r.bodies, 12)
		for _, b := range r.bodies {
			var list []postable
			require.NoError(t, json.Unmarshal([]byte(b), &list))
			require.Len(t, list, 1)
		}
	})
}
