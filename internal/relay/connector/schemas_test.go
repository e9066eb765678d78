package connector

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
)

// fakeSchemas is a registry that answers when set is called.
type fakeSchemas struct {
	mu      sync.Mutex
	answer  router.SchemaAnswer
	encoder router.Encoder
	asked   int
	since   time.Time     // of a wait, zero for none
	moved   chan struct{} // closed and replaced by set
}

func newSchemas() *fakeSchemas { return &fakeSchemas{moved: make(chan struct{})} }

func (f *fakeSchemas) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (f *fakeSchemas) Schema([]byte, router.SchemaVersion) (router.Schema, router.SchemaAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return router.Schema{ID: 7, Encoder: f.encoder}, f.answer
}

// narrow is the encoder of a schema that no payload fits.
type narrow struct{}

func (narrow) Append(dst, _, _ []byte) ([]byte, error) { return dst, errors.New("$: expected nothing") }
func (narrow) JSON([]byte) ([]byte, error)             { return nil, nil }

func (f *fakeSchemas) Resolve(ctx context.Context, _ router.UnresolvedSchema) error {
	f.mu.Lock()
	f.asked++
	f.since = time.Now()
	moved := f.moved
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.since = time.Time{}
		f.mu.Unlock()
	}()
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeSchemas) set(a router.SchemaAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer, f.encoder = a, nil
	close(f.moved)
	f.moved = make(chan struct{})
}

func (f *fakeSchemas) Waits() []fault.Wait {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return nil
	}
	return []fault.Wait{{Kind: "registry_unreachable", Object: "registry", Reason: "it is away", Since: f.since}}
}

// framing is a configuration whose rows need a schema.
func (f *fakeSchemas) framing(t *testing.T, cfg Config) Config {
	r, err := outbox.New(outbox.Config{
		Columns: outbox.DefaultColumns(), Topic: outbox.DefaultTopic,
		Registry: outbox.Registry{Subject: "${topic}-value", Format: "avro", Schemas: f},
	})
	require.NoError(t, err)
	cfg.Router, cfg.Schemas = r, f
	return cfg
}

func TestWaitsForASchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSchemas()
		s := newStream(begin(100), row("a"), row("b"), commit(150))
		g := start(t, f.framing(t, Config{}), true, opening{at(50), s})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, g.producer.produced())
		ready, why := g.Ready()
		require.False(t, ready)
		require.Contains(t, why, "registry: it is away")
		require.Equal(t, "registry_unreachable", g.Status().Waits[0].Kind)
		require.Equal(t, walAt(50), g.confirmed())
		f.set(router.SchemaKnown)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, g.producer.produced())
		require.Equal(t, "\x00\x00\x00\x00\x07{}", string(g.producer.records[0].Value))
		require.Equal(t, walAt(150), g.confirmed())
		require.Equal(t, 1, f.asked)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// A stream that breaks meanwhile brings the row again, and it is published once.
func TestAStreamThatBreaksEndsTheWaitForASchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSchemas()
		first := newStream(begin(100), row("a"), commit(150))
		second := newStream(begin(100), row("a"), commit(150))
		g := start(t, f.framing(t, Config{}), true, opening{at(50), first}, opening{at(50), second})
		time.Sleep(time.Second)
		close(first.broken)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, stream(second), g.currentStream())
		require.Empty(t, g.producer.produced())
		f.set(router.SchemaKnown)
		synctest.Wait()
		require.Equal(t, []string{"a"}, g.producer.produced())
		require.Equal(t, walAt(150), g.confirmed())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestAStopEndsTheWaitForASchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSchemas()
		g := start(t, f.framing(t, Config{}), true, opening{at(50), newStream(begin(100), row("a"), commit(150))})
		time.Sleep(time.Second)
		began := time.Now()
		g.stop()
		require.NoError(t, <-g.done)
		require.Equal(t, began, time.Now(), "at once")
		require.Empty(t, g.producer.produced())
		require.Equal(t, walAt(50), g.confirmed())
	})
}

func TestAFencedInstanceStopsWaitingForASchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSchemas()
		first, second := newStream(begin(100), row("a"), commit(150)), newStream()
		is := replication.Identity{ConfirmedFlush: 50}
		g := start(t, f.framing(t, Config{}), true, opening{is, first}, opening{is, second})
		time.Sleep(time.Second)
		g.onSessionEnd(sink.ErrFenced)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, stream(second), g.currentStream())
		require.Len(t, g.producer.claims, 2, "it begins again")
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// A row that halted because the registry lacks its schema is tried again, and an operator may pass it meanwhile.
func TestASchemaThatIsRegisteredEndsTheHalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 4 {
			f, initial, why := newSchemas(), i%2 == 1, "unknown_schema"
			f.answer = router.SchemaNoSubject
			if i > 1 {
				f.answer, f.encoder, why = router.SchemaKnown, narrow{}, "payload_does_not_fit"
			}
			cfg := Config{}
			want := []string{"a"}
			if initial {
				cfg.Snapshot = newList(1).open
				want = []string{"s1", "a"}
			}
			g := start(t, f.framing(t, cfg), true, opening{at(50), newStream(begin(100), row("a"), commit(150))})
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, want[0], g.Status().Halted.EventID)
			require.Equal(t, why, g.Status().Halted.Reason)
			require.Equal(t, time.Minute, time.Since(g.Status().Halted.Since))
			require.Empty(t, g.producer.produced())
			f.set(router.SchemaKnown)
			time.Sleep(lookAgain)
			synctest.Wait()
			require.Equal(t, want, g.producer.produced())
			require.Nil(t, g.Status().Halted)
			ready, said := g.Ready()
			require.True(t, ready, said)
			g.stop()
			require.NoError(t, <-g.done)
		}
	})
}
