package schemaregistry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// standIn is a registry in memory. It answers without a connection, so that time can be virtual.
type standIn struct {
	mu    sync.Mutex
	away  bool
	ids   map[string]int32  // by the end of the address
	texts map[string]string // the rest of the answer
	asked int
}

func (s *standIn) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.away {
		return nil, errors.New("away")
	}
	_, what, _ := strings.Cut(r.URL.Path, "/subjects/")
	_, version, _ := strings.Cut(what, "/versions/")
	status, body := http.StatusNotFound, `{"error_code":40401}`
	if id, ok := s.ids[what]; ok {
		if version == "latest" {
			version = "5"
		}
		status, body = http.StatusOK, fmt.Sprintf(`{"id":%d,"version":%s%s}`, id, version, s.texts[what])
	}
	return &http.Response{
		StatusCode: status, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {registryJSON}},
	}, nil
}

func (s *standIn) set(change func(*standIn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *standIn) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *standIn) registry(store Store) *Registry {
	return New(Config{Client: Client{URL: "https://registry", HTTP: &http.Client{Transport: s}}, Store: store})
}

func id(g *Registry, need router.UnresolvedSchema) (int32, router.SchemaAnswer) {
	s, state := g.Schema([]byte(need.Subject), need.Version)
	return s.ID, state
}

var latest = router.UnresolvedSchema{Subject: "orders-value", Version: router.LatestSchema}

// A version with a number is asked for once; an unknown one waits, is shown, and goes on when the registry is back.
func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{away: true, ids: map[string]int32{"orders-value/versions/3": 7}}
		g := s.registry(nil)
		resolved := make(chan error, 2)
		for range 2 { // the workers of a relay
			go func() { resolved <- g.Resolve(t.Context(), orders) }()
		}
		time.Sleep(time.Hour)
		waits := g.Waits()
		require.Len(t, waits, 1)
		require.Equal(t, string(sink.RegistryUnreachable), waits[0].Kind)
		require.Equal(t, `schema registry https://registry: rows wait for the id of subject "orders-value", `+
			`version 3: it cannot be asked: away`, waits[0].Sentence())
		require.Equal(t, time.Hour, time.Since(waits[0].Since))
		require.NotEmpty(t, waits[0].Next)
		require.Less(t, s.requests(), 500, "an hour of pauses that grow to 15 s")
		require.Greater(t, s.requests(), 200)

		s.set(func(s *standIn) { s.away, s.asked = false, 0 })
		require.NoError(t, <-resolved)
		require.NoError(t, <-resolved)
		require.Equal(t, 1, s.requests(), "one request for both")
		known, state := id(g, orders)
		require.Equal(t, int32(7), known)
		require.Equal(t, router.SchemaKnown, state)
		require.Empty(t, g.Waits())
		require.NoError(t, g.Resolve(t.Context(), orders))
		require.Equal(t, 1, s.requests())
	})
}

// An absence is believed for a short time only: the schema may be registered at any moment.
func TestAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{ids: map[string]int32{}}
		g := s.registry(nil)
		for range 100 { // rows of one subject
			require.NoError(t, g.Resolve(t.Context(), orders))
		}
		_, state := id(g, orders)
		require.Equal(t, router.SchemaNoSubject, state)
		require.Equal(t, 1, s.requests())
		time.Sleep(absentFor)
		_, state = id(g, orders)
		require.Equal(t, router.SchemaNotAsked, state)
		s.set(func(s *standIn) { s.ids["orders-value/versions/3"] = 7 })
		require.NoError(t, g.Resolve(t.Context(), orders))
		known, _ := id(g, orders)
		require.Equal(t, int32(7), known)
	})
}

// The latest version is asked for again in the background, and an id that is known stays in use while the registry is
// away, or has lost it.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{ids: map[string]int32{"orders-value/versions/latest": 7, "orders-value/versions/3": 3}}
		g := s.registry(nil)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		require.NoError(t, g.Resolve(t.Context(), latest))
		require.NoError(t, g.Resolve(t.Context(), orders))
		is := func(want int32) {
			t.Helper()
			synctest.Wait()
			got, state := id(g, latest)
			require.Equal(t, router.SchemaKnown, state)
			require.Equal(t, want, got)
		}
		s.set(func(s *standIn) { s.ids["orders-value/versions/latest"], s.asked = 8, 0 })
		is(7)
		time.Sleep(time.Minute)
		is(8)
		require.Equal(t, 1, s.requests(), "a numbered version never changes")
		s.set(func(s *standIn) { s.away = true })
		time.Sleep(time.Hour)
		is(8)
		require.Empty(t, g.Waits(), "no row waits")
		s.set(func(s *standIn) { s.away = false; clear(s.ids) })
		time.Sleep(time.Hour)
		is(8)
		end()
		require.NoError(t, <-ended)
	})
}

// kept is a store in memory.
type kept struct {
	mu   sync.Mutex
	err  error
	all  []Known
	held chan struct{} // closed: Load may go on
}

func (k *kept) Load(ctx context.Context) ([]Known, error) {
	if k.held != nil {
		select {
		case <-k.held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, k.err
}

func (k *kept) Save(_ context.Context, all []Known) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.all = all
	}
	return k.err
}

func (k *kept) saved() []Known {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all
}

// A restart while the registry is away goes on with the ids that were kept.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{ids: map[string]int32{"orders-value/versions/latest": 8, "orders-value/versions/3": 7}}
		store := &kept{}
		run := func(g *Registry) (stop func()) {
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- g.Run(ctx) }()
			return func() { end(); require.NoError(t, <-ended) }
		}
		g := s.registry(store)
		stop := run(g)
		require.NoError(t, g.Resolve(t.Context(), orders))
		require.NoError(t, g.Resolve(t.Context(), latest))
		synctest.Wait()
		require.Equal(t, []Known{{UnresolvedSchema: latest, ID: 8}, {UnresolvedSchema: orders, ID: 7}}, store.saved())
		stop()

		s.set(func(s *standIn) { s.away = true })
		store.held = make(chan struct{})
		g = s.registry(store)
		stop = run(g)
		resolved := make(chan error)
		go func() { resolved <- g.Resolve(t.Context(), orders) }()
		time.Sleep(time.Minute / 2)
		close(store.held)
		require.NoError(t, <-resolved, "a row that waited goes on when the store was read")
		known, _ := id(g, latest)
		require.Equal(t, int32(8), known)
		stop()
	})
}

// A store that fails keeps no row waiting, is written later, and nothing that it holds is lost meanwhile.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{ids: map[string]int32{"orders-value/versions/3": 7}}
		store := &kept{err: errors.New("no table"), all: []Known{{UnresolvedSchema: latest, ID: 8}}}
		g := s.registry(store)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		require.NoError(t, g.Resolve(t.Context(), orders))
		time.Sleep(time.Hour)
		store.mu.Lock()
		store.err = nil
		store.mu.Unlock()
		time.Sleep(2 * time.Minute)
		require.Equal(t, []Known{{UnresolvedSchema: latest, ID: 8}, {UnresolvedSchema: orders, ID: 7}}, store.saved())
		end()
		require.NoError(t, <-ended)
	})
}

// Ask, of commands, does not wait for a registry that gives no answer.
func TestAsk(t *testing.T) {
	s := &standIn{away: true, ids: map[string]int32{"orders-value/versions/3": 7}}
	g := s.registry(nil)
	require.ErrorAs(t, g.Ask(t.Context(), orders), new(*Error))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Ask(over, orders), context.Canceled)
	require.ErrorIs(t, g.Resolve(over, orders), context.Canceled)
	s.set(func(s *standIn) { s.away = false })
	require.NoError(t, g.Ask(t.Context(), orders))
	known, _ := id(g, orders)
	require.Equal(t, int32(7), known)
}

// Rows may name any number of subjects: memory stays bounded.
func TestBounded(t *testing.T) {
	g := (&standIn{}).registry(nil)
	for i := range maxKnown + 100 {
		need := router.UnresolvedSchema{Subject: fmt.Sprint(i), Version: 1}
		g.note(need, fact{answer: answer{ID: 1, State: router.SchemaKnown}}, nil)
	}
	require.Len(t, g.Known(), maxKnown)
}
