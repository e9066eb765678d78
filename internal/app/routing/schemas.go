package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Schemas makes the configured schema registry, nil if there is none. A nil logger is for commands.
func Schemas(c *config.Loaded, store schemaregistry.Store, log *zap.Logger) (*schemaregistry.Registry, error) {
	g := &c.Router.Registry
	if g.URL == "" || c.Router.Preset == config.PresetDebezium {
		return nil, nil //nolint:nilnil // rows need none, and nothing went wrong
	}
	client, err := RegistryClient(c)
	if err != nil {
		return nil, err
	}
	return schemaregistry.New(schemaregistry.Config{
		Client: *client, Refresh: g.Refresh, Store: store, Logger: log, Encode: encoded(g),
	}), nil
}

// RegistryClient makes the client of the configured schema registry.
func RegistryClient(c *config.Loaded) (*schemaregistry.Client, error) {
	g := &c.Router.Registry
	client, err := g.Client()
	if err != nil {
		return nil, &fault.Error{Kind: fault.Config, Object: "router.registry.tls", Err: err}
	}
	return &schemaregistry.Client{URL: g.URL, HTTP: client, Authorize: login(g)}, nil
}

// encoded is the registry's word for the schemas that payloads are encoded by, empty if they are not encoded.
func encoded(g *config.Registry) string {
	if !g.Encode {
		return ""
	}
	return strings.ToUpper(g.Format)
}

// login is nil for none.
func login(g *config.Registry) func(context.Context, *http.Request) error {
	if !g.Username.IsSet() {
		return nil
	}
	return func(_ context.Context, req *http.Request) error {
		user, err := g.Username.Read()
		if err != nil {
			return err
		}
		password, err := g.Password.Read()
		if err != nil {
			return err
		}
		req.SetBasicAuth(user, password)
		return nil
	}
}

// resolving is a router that asks the registry for the schemas it does not know: what runs once can wait for an answer,
// and ends with the error if there is none.
type resolving struct {
	router.Router
	registry *schemaregistry.Registry
	ask      func(router.UnresolvedSchema) error
}

// Route implements router.Router. The error can be a *fault.Error, too.
func (r *resolving) Route(rel *pgoutput.Relation, row pgoutput.Tuple, src router.Source) (*router.Record, error) {
	for {
		rec, err := r.Router.Route(rel, row, src)
		if err == nil {
			return rec, nil
		}
		if err := r.resolve(err); err != nil {
			return nil, err
		}
	}
}

// resolve asks for the schema that a row could not be routed without. Another error it returns.
func (r *resolving) resolve(err error) error {
	var need *router.UnresolvedSchema
	if !errors.As(err, &need) {
		return err
	}
	err = r.ask(*need)
	var why *schemaregistry.Error
	if !errors.As(err, &why) {
		return err
	}
	f := why.Fault()
	f.Err = fmt.Errorf("%w: %w", need, f.Err)
	return f
}

// KnownSchemas lists the schemas that a router of NewTo has asked for and that have an id.
func KnownSchemas(r router.Router) []schemaregistry.Known {
	if r, ok := r.(*resolving); ok {
		return r.registry.Known()
	}
	return nil
}
