package schemaregistry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/encoding"
)

// Known is a schema with its id.
type Known struct {
	router.UnresolvedSchema
	ID     int32
	Source encoding.Source // empty unless payloads are encoded
}

// Store keeps ids across restarts, of one registry.
type Store interface {
	Load(ctx context.Context) ([]Known, error)
	Save(ctx context.Context, all []Known) error
}

// Run reads the store, asks for the latest versions again at the interval, and saves ids, until ctx ends. It returns
// nil, and may run again then.
func (g *Registry) Run(ctx context.Context) error {
	g.load(ctx)
	unsaved := false
	tick := time.NewTicker(g.cfg.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.load(ctx)
			g.refresh(ctx)
		case <-g.dirty:
			unsaved = true
		}
		if unsaved && g.isLoaded() {
			unsaved = !g.save(ctx)
		}
	}
}

func (g *Registry) isLoaded() bool {
	select {
	case <-g.loaded:
		return true
	default:
		return false
	}
}

// load takes over what is kept, unless that was done. What the registry has said meanwhile is newer.
func (g *Registry) load(ctx context.Context) {
	if g.isLoaded() {
		return
	}
	all, err := g.cfg.Store.Load(ctx)
	if err != nil {
		if ctx.Err() == nil {
			g.log.Warn("kept ids of schemas cannot be read; they are read again later",
				telemetry.ErrorFields(err)...)
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range all[:min(len(all), maxKnown)] {
		if f := g.known[k.UnresolvedSchema]; f.State != router.SchemaKnown {
			g.putKept(k)
		}
	}
	close(g.loaded)
}

// putKept takes over a schema that was kept, unless its text does not give an encoder. g.mu is held.
func (g *Registry) putKept(k Known) {
	f := fact{answer: answer{ID: k.ID, State: router.SchemaKnown}}
	if g.cfg.Encode != "" {
		if f.compiled = g.recompile(k); f.compiled == nil {
			return
		}
	}
	g.put(k.UnresolvedSchema, f)
}

func (g *Registry) save(ctx context.Context) bool {
	if g.cfg.Store == nil {
		return true
	}
	if err := g.cfg.Store.Save(ctx, g.Known()); err != nil {
		if ctx.Err() == nil {
			g.log.Warn("ids of schemas cannot be kept for a restart; it is tried again later",
				telemetry.ErrorFields(err)...)
		}
		return false
	}
	return true
}

// Known lists the schemas that have an id, by subject and version.
func (g *Registry) Known() []Known {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var all []Known
	for need, f := range g.known {
		if f.State == router.SchemaKnown {
			k := Known{UnresolvedSchema: need, ID: f.ID}
			if f.compiled != nil {
				k.Source = f.compiled.source
			}
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b Known) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Version, b.Version))
	})
	return all
}

// refresh asks for the latest versions again, one after the other, until one is not answered.
func (g *Registry) refresh(ctx context.Context) {
	for _, k := range g.Known() {
		if k.Version != router.LatestSchema {
			continue
		}
		if ctx.Err() != nil || g.Ask(ctx, k.UnresolvedSchema) != nil {
			return
		}
	}
}
