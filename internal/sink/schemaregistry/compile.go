package schemaregistry

import (
	"context"
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/encoding"
)

// Bounds of one schema with all that it refers to. A registry keeps a schema in one Kafka record, which is rarely
// allowed to be longer than 1 MiB.
const (
	maxReferences = 100
	maxReferDepth = 10
	maxTexts      = 4 << 20
)

// compiled is a schema that payloads can be encoded by.
type compiled struct {
	source  encoding.Source
	first   content // as the registry has it, to recognise it again
	encoder router.Encoder
}

// compile makes the encoder of a schema that the registry has answered with, or returns the known one if the schema is
// the same. The error is an *Error.
func (g *Registry) compile(ctx context.Context, need router.UnresolvedSchema, a reply) (*compiled, error) {
	g.mu.RLock()
	was := g.known[need]
	g.mu.RUnlock()
	if c := was.compiled; c != nil && was.ID == a.ID && c.first.equal(&a.content) {
		return c, nil
	}
	c := &compiled{first: a.content, source: encoding.Source{
		Type: a.content.Type, Text: a.content.Text,
	}}
	if c.source.Type != g.cfg.Encode {
		return nil, g.cfg.Client.unusable(need, fmt.Errorf("its type is %.20q, and router.registry.format asks for %s",
			c.source.Type, g.cfg.Encode), "Set router.registry.format to the type of the "+
			"schemas, or correct router.registry.subject.")
	}
	f := fetching{
		client: &g.cfg.Client, need: need, source: &c.source, named: map[string]reference{},
		left: maxTexts - len(c.source.Text),
	}
	if err := f.references(ctx, a.content.References, 0); err != nil {
		return nil, err
	}
	var err error
	if c.encoder, err = encoding.Compile(c.source); err != nil {
		return nil, g.cfg.Client.unusable(need, err, "Register a version of the schema that can be compiled.")
	}
	return c, nil
}

// equal reports whether two answers have the same schema.
func (c *content) equal(other *content) bool {
	return c.Text == other.Text && c.Type == other.Type && slices.Equal(c.References, other.References)
}

func (c *Client) unusable(need router.UnresolvedSchema, err error, next string) *Error {
	e := c.failed(false, fmt.Errorf("the schema of subject %.200q, version %s, cannot be used: %w",
		need.Subject, need.Version, err), next)
	e.Schema = true
	return e
}

// fetching gathers what a schema refers to.
type fetching struct {
	client *Client
	need   router.UnresolvedSchema
	source *encoding.Source
	named  map[string]reference
	left   int // bytes of text
}

// references gathers schemas, each after the schemas that it refers to itself. One that two refer to is gathered once,
// which also bounds references in a circle.
func (f *fetching) references(ctx context.Context, list []reference, depth int) error {
	for _, r := range list {
		if seen, twice := f.named[r.Name]; twice {
			if seen != r {
				return f.refused(fmt.Errorf("it refers to two schemas by the name %.200q", r.Name))
			}
			continue
		}
		f.named[r.Name] = r
		if len(f.named) > maxReferences || depth >= maxReferDepth {
			return f.refused(fmt.Errorf("it refers to more than %d schemas, or through more than %d of them",
				maxReferences, maxReferDepth))
		}
		a, err := f.client.lookup(ctx, router.UnresolvedSchema{Subject: r.Subject, Version: r.Version})
		if err != nil {
			return err
		}
		if a.State != router.SchemaKnown || r.Version < 1 {
			return f.refused(fmt.Errorf("it refers to version %s of subject %.200q, which the registry does not have",
				r.Version, r.Subject))
		}
		if f.left -= len(a.content.Text); f.left < 0 {
			return f.refused(fmt.Errorf("it has more than %d bytes with all that it refers to", maxTexts))
		}
		if err := f.references(ctx, a.content.References, depth+1); err != nil {
			return err
		}
		f.source.References = append(f.source.References, encoding.Reference{Name: r.Name, Text: a.content.Text})
	}
	return nil
}

func (f *fetching) refused(err error) error {
	return f.client.unusable(f.need, err, "Register a version of the schema that the relay can use.")
}

// recompile makes the encoder of a schema that was kept, nil if it cannot.
func (g *Registry) recompile(k Known) *compiled {
	if k.Source.Type != g.cfg.Encode {
		return nil
	}
	e, err := encoding.Compile(k.Source)
	if err != nil {
		return nil
	}
	return &compiled{
		source: k.Source, encoder: e, first: content{Type: k.Source.Type, Text: k.Source.Text},
	}
}
