package schemaregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// register has a version with its schema.
func (s *standIn) register(what string, id int32, text string, references ...reference) {
	s.set(func(s *standIn) {
		if s.texts == nil {
			s.texts = map[string]string{}
		}
		s.ids[what] = id
		shown, _ := json.Marshal(map[string]any{"schema": text, "references": references})
		s.texts[what] = "," + strings.Trim(string(shown), "{}")
	})
}

func (s *standIn) encoding(store Store) *Registry {
	g := s.registry(store)
	g.cfg.Encode = "AVRO"
	return g
}

// encoded is a document by the schema that is known.
func encoded(t *testing.T, g *Registry, need router.UnresolvedSchema, document string) string {
	s, state := g.Schema([]byte(need.Subject), need.Version)
	require.Equal(t, router.SchemaKnown, state)
	require.NotNil(t, s.Encoder)
	got, err := s.Encoder.Append(nil, nil, []byte(document))
	require.NoError(t, err)
	return fmt.Sprintf("%d:%x", s.ID, got)
}

// An encoder and its id change together; a version that cannot be used leaves both.
func TestSchemaEvolves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{ids: map[string]int32{}}
		s.register("orders-value/versions/latest", 7, `"int"`)
		g := s.encoding(nil)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		require.NoError(t, g.Resolve(t.Context(), latest))
		require.Equal(t, "7:02", encoded(t, g, latest, "1"))
		first, _ := g.Schema([]byte(latest.Subject), latest.Version)
		time.Sleep(time.Hour)
		again, _ := g.Schema([]byte(latest.Subject), latest.Version)
		require.Same(t, first.Encoder, again.Encoder, "it is compiled once")

		s.register("orders-value/versions/latest", 8, `"double"`)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "8:000000000000f03f", encoded(t, g, latest, "1"))
		s.register("orders-value/versions/latest", 9, `"nothing"`)
		time.Sleep(time.Hour)
		require.Equal(t, "8:000000000000f03f", encoded(t, g, latest, "1"))
		require.Empty(t, g.Waits(), "no row waits")
		s.register("orders-value/versions/latest", 9, `"long"`) // as in a registry that was put back
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "9:02", encoded(t, g, latest, "1"))
		end()
		require.NoError(t, <-ended)
	})
}

// A schema that cannot be used keeps its own rows waiting, and says why; other schemas are asked for meanwhile.
func TestUnusableSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{ids: map[string]int32{}}
		s.register("orders-value/versions/3", 7, `"nothing"`)
		s.register("orders-value/versions/latest", 8, `"int"`)
		g := s.encoding(nil)
		resolved := make(chan error, 1)
		go func() { resolved <- g.Resolve(t.Context(), orders) }()
		time.Sleep(time.Hour)
		waits := g.Waits()
		require.Len(t, waits, 1)
		require.Equal(t, string(sink.RegistryRefuses), waits[0].Kind)
		require.Equal(t, `schema registry https://registry: rows wait: the schema of subject "orders-value", `+
			`version 3, cannot be used: the type "nothing" is not defined`, waits[0].Sentence())
		require.Equal(t, "Register a version of the schema that can be compiled.", waits[0].Next)
		before := time.Now()
		require.NoError(t, g.Resolve(t.Context(), latest))
		require.Equal(t, before, time.Now(), "at once")
		s.register("orders-value/versions/3", 9, `"string"`)
		require.NoError(t, <-resolved)
		require.Equal(t, "9:0278", encoded(t, g, orders, `"x"`))
		require.Empty(t, g.Waits())
	})
}

func TestReferences(t *testing.T) {
	record := func(name, of string) string {
		return fmt.Sprintf(`{"type":"record","name":%q,"fields":[{"name":"a","type":%q}]}`, name, of)
	}
	s := &standIn{ids: map[string]int32{}}
	s.register("a/versions/1", 1, record("A", "int"))
	s.register("b/versions/2", 2, record("B", "A"), reference{"A", "a", 1})
	s.register("orders-value/versions/3", 3,
		`{"type":"record","name":"C","fields":[{"name":"a","type":"A"},{"name":"b","type":"B"}]}`,
		reference{"B", "b", 2}, reference{"A", "a", 1})
	store := &kept{}
	g := s.encoding(store)
	require.NoError(t, g.Ask(t.Context(), orders))
	require.Equal(t, "3:0204", encoded(t, g, orders, `{"a":{"a":1},"b":{"a":{"a":2}}}`))
	require.NoError(t, store.Save(t.Context(), g.Known()))

	s.away = true
	g = s.encoding(store)
	g.loaded = make(chan struct{})
	g.load(t.Context())
	require.Equal(t, "3:0204", encoded(t, g, orders, `{"a":{"a":1},"b":{"a":{"a":2}}}`), "of the store")
	g = s.encoding(&kept{all: []Known{{UnresolvedSchema: orders, ID: 3}}})
	g.loaded = make(chan struct{})
	g.load(t.Context())
	_, state := g.Schema([]byte(orders.Subject), orders.Version)
	require.Equal(t, router.SchemaNotAsked, state, "what was kept without a schema does not encode")
	s.away = false

	for i := range 20 {
		s.register(fmt.Sprintf("r%d/versions/1", i), 9, `"int"`,
			reference{fmt.Sprint("R", i+1), fmt.Sprint("r", i+1), 1})
		s.register(fmt.Sprintf("l%d/versions/1", i), 9, strings.Repeat("x", 1<<20))
	}
	for want, list := range map[string][]reference{
		"does not have":        {{"X", "x", 1}},
		"does not have ":       {{"A", "a", -1}},
		"two schemas by":       {{"A", "a", 1}, {"A", "b", 2}},
		"through more than":    {{"R0", "r0", 1}},
		"more than 4194304 by": {{"L1", "l1", 1}, {"L2", "l2", 1}, {"L3", "l3", 1}, {"L4", "l4", 1}, {"L5", "l5", 1}},
	} {
		s.register("orders-value/versions/3", 4, `"int"`, list...)
		err := s.encoding(nil).Ask(t.Context(), orders)
		require.ErrorContains(t, err, strings.TrimSpace(want))
		var e *Error
		require.True(t, errors.As(err, &e) && e.Schema && e.Next != "")
	}
	s.register("c/versions/1", 9, record("A", "int"), reference{"A", "c", 1}) // it refers to itself
	s.register("orders-value/versions/3", 4, `"A"`, reference{"A", "c", 1})
	require.NoError(t, s.encoding(nil).Ask(t.Context(), orders))
}

// However large the schemas are that rows name, memory stays bounded.
func TestTextsAreBounded(t *testing.T) {
	s := &standIn{ids: map[string]int32{}}
	g := s.encoding(nil)
	for i := range 10 {
		what := router.UnresolvedSchema{Subject: fmt.Sprint("s", i), Version: 1}
		s.register(what.Subject+"/versions/1", int32(i), `"int"`+strings.Repeat(" ", 4_000_000))
		require.NoError(t, g.Ask(t.Context(), what))
		require.Equal(t, fmt.Sprint(i, ":02"), encoded(t, g, what, "1"), "what came last is there")
	}
	require.Len(t, g.Known(), 8)
	require.LessOrEqual(t, g.texts, maxKnownTexts)
	n := 0
	for _, k := range g.Known() {
		n += len(k.Source.Text)
	}
	require.Equal(t, g.texts, n)
}
