package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/preview"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// sampledRows is the number of the latest rows of each table that Check routes.
const sampledRows = 100

// PreviewOptions are the options for reading rows and routing them as Run would.
func PreviewOptions(ctx context.Context, c *config.Loaded) (preview.Options, error) {
	o, err := PreviewTables(c)
	if err == nil {
		o.Router, err = routing.NewTo(ctx, c, "")
	}
	return o, err
}

// PreviewTables are the options for reading rows, without a router.
func PreviewTables(c *config.Loaded) (preview.Options, error) {
	db, err := wiring.NewTarget(c)
	return preview.Options{DSN: db.DSN, Admin: db.Admin, Policies: wiring.Policies(c)}, err
}

// sampleTimeout bounds a sort of a large table that has no index on the timestamp.
const sampleTimeout = 5 * time.Second

// checkSample routes the latest rows, because a check that leaves out bad rows is green while Run halts.
func checkSample(ctx context.Context, c *config.Loaded) ([]preflight.Finding, error) {
	o, err := PreviewOptions(ctx, c)
	if err != nil || len(o.Admin.Tables) == 0 {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	bad, newest := 0, false // newest: the latest row is good
	var first *preview.Record
	n, err := preview.Rows(limited, o, nil, sampledRows, func(r *preview.Record) error {
		newest = r.Bad == nil
		if r.Bad != nil {
			bad++
			if first == nil {
				first = r
			}
		}
		return nil
	}) // an error about a table is a finding of its own
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, new(*postgres.LongRowError)):
		return []preflight.Finding{longRow(err, c.Source, wiring.Policies(c))}, nil
	case errors.As(err, new(*router.UnresolvedSchema)):
		return []preflight.Finding{noSchema(err)}, nil
	}
	found := schemasFound(routing.KnownSchemas(o.Router))
	switch {
	case first != nil:
		return append(found, badRows(first, bad, n, newest)), nil
	case limited.Err() != nil:
		return append(found, preflight.Fine("rows", fmt.Sprintf("The latest rows were not tried: reading them "+
			"took more than %d s.", sampleTimeout/time.Second))), nil
	}
	return found, nil
}

// noSchema is the finding about a schema registry that gives no answer about a row's schema.
func noSchema(err error) preflight.Finding {
	why, remedy := fault.Split(err)
	return preflight.Finding{
		Level: preflight.Fail, Subject: "schema registry", Found: fault.Printable(why) + ".",
		Why: "run waits at a row whose schema it does not know, and publishes nothing after it.",
	}.With(remedy)
}

// shownSchemas is how many schemas a finding names.
const shownSchemas = 10

func schemasFound(known []schemaregistry.Known) []preflight.Finding {
	if len(known) == 0 {
		return nil
	}
	var b strings.Builder
	for _, k := range known[:min(len(known), shownSchemas)] {
		fmt.Fprintf(&b, " %s, version %s: id %d.", fault.Printable(k.Subject), k.Version, k.ID)
	}
	if more := len(known) - shownSchemas; more > 0 {
		fmt.Fprintf(&b, " And %d more.", more)
	}
	return []preflight.Finding{preflight.Fine("schema registry", "It knows the schemas of the latest rows:"+b.String())}
}

func badRows(first *preview.Record, bad, n int, newest bool) preflight.Finding {
	f := preflight.Finding{
		Level: preflight.Fail, Subject: "table " + fault.Printable(first.Table),
		Found: fmt.Sprintf("%d of %d sampled rows cannot become a record. Event %s: %s (%s).",
			bad, n, fault.Printable(first.Bad.EventID), fault.Printable(first.Bad.Detail), first.Bad.Reason),
		Why:    "run halts at such a row; see router.on_bad_row.",
		Remedy: first.Bad.Next, Commands: []string{fmt.Sprintf("cdc-outbox preview --last %d", sampledRows)},
	}
	switch policy := first.Bad.Policy; {
	case policy != string(relay.Halt):
		f.Level, f.Why = preflight.Warn, "Such a row does not become an event: the policy is "+policy+"."
	case newest:
		f.Level, f.Why = preflight.Warn, "run halts at such a row. Later rows become records."
	}
	return f
}

// longRow is the finding about a row that run does not receive as a whole.
func longRow(err error, source string, policies relay.Policies) preflight.Finding {
	why, remedy := fault.Split(err)
	f := preflight.Finding{
		Level: preflight.Fail, Subject: "rows", Found: "Of the latest rows, not all could be tried: " + why + ".",
		Why:    "run halts at such a row, unless its record leaves out what is long; see router.bad_rows.too_large.",
		Remedy: remedy.Next,
	}
	if policy := policies.For(router.TooLarge); source != config.SourcePolling && policy != relay.Halt {
		f.Level, f.Why = preflight.Warn, "Such a row does not become an event: the policy is "+string(policy)+"."
	}
	return f
}
