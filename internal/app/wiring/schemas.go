package wiring

import (
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Schemas makes the schema registry of a relay, nil if none is configured.
func Schemas(c *config.Loaded, log *zap.Logger) (*schemaregistry.Registry, error) {
	g := &c.Router.Registry
	if g.Cache == "" {
		return routing.Schemas(c, nil, log)
	}
	return routing.Schemas(c, schemaregistry.File{Path: g.Cache, URL: g.URL}, log)
}

// SchemaParts are the registry as a router and as a source of rows see it, nil if there is none.
func SchemaParts(g *schemaregistry.Registry) (router.Schemas, relay.Schemas) {
	if g == nil {
		return nil, nil // not a nil pointer in an interface
	}
	return g, g
}
