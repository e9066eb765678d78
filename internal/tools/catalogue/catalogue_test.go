package catalogue

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// grouped is a broker with one topic and one group. A topic that it does not have is sink.ErrNoTopic.
type grouped struct {
	sink.Reader
	err   error
	asked []sink.Span
}

func (g *grouped) Close()            {}
func (g *grouped) Names() sink.Names { return sink.Names{Broker: "Broker"} }

func (g *grouped) Spans(_ context.Context, topics ...string) ([]sink.Span, error) {
	if topics[0] != "orders" {
		return nil, sink.ErrNoTopic
	}
	return []sink.Span{{Topic: "orders", End: 3}}, g.err
}

func (g *grouped) Groups(_ context.Context, spans []sink.Span) ([]sink.Group, error) {
	g.asked = spans
	return []sink.Group{{Name: "billing", Topic: "orders", Lag: 2}}, nil
}

// single is a broker without groups.
type single struct{ sink.Reader }

func (single) Close()            {}
func (single) Names() sink.Names { return sink.Names{Broker: "Broker"} }

func TestConsumers(t *testing.T) {
	opened := func(r sink.Reader) sink.OpenReader { return func() (sink.Reader, error) { return r, nil } }
	events := []Event{{Topic: "missing"}, {Topic: "orders", Type: "a"}, {Topic: "orders", Type: "b"}}

	c, g := &Catalogue{Events: events}, &grouped{}
	require.NoError(t, c.consumers(t.Context(), opened(g)))
	require.Equal(t, []Consumer{{"billing", "orders", 2}}, c.Consumers)
	require.Len(t, g.asked, 1, "a topic is asked for once")

	for why, r := range map[string]sink.Reader{
		"Broker keeps no groups of consumers": single{}, "refused": &grouped{err: errors.New("refused")},
	} {
		c = &Catalogue{Events: events}
		require.NoError(t, c.consumers(t.Context(), opened(r)), "the rows are known without it")
		require.Equal(t, why, c.Unknown)
		var text strings.Builder
		require.NoError(t, c.Text(&text))
		require.Contains(t, text.String(), "Consumers are not known: "+why)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, c.consumers(ctx, opened(&grouped{err: errors.New("cut")})), context.Canceled)
}
