package schemacheck

import (
	"context"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/preview"
)

// Options are the registry and the rows.
type Options struct {
	Registry *schemaregistry.Client
	Preview  *preview.Options // with a router that has Schemas; nil: no rows are tried
	Schemas  *Schemas
	Last     int // rows of each table
}

// Result is what is known of a schema.
type Result struct {
	Path    string `json:"file"`
	Subject string `json:"subject"`
	Type    string `json:"type"`

	New        bool     `json:"new_subject"`
	Compatible bool     `json:"compatible"`
	Reasons    []string `json:"reasons,omitempty"`
	LatestOnly bool     `json:"latest_only,omitempty"` // the registry compares with no earlier version
	Unusable   string   `json:"unusable,omitempty"`    // why the relay cannot encode by it

	Rows *Rows `json:"rows,omitempty"` // nil: none were tried
}

// Fits reports whether the schema can be registered and used.
func (r *Result) Fits() bool {
	return r.Compatible && r.Unusable == "" && (r.Rows == nil || r.Rows.Misfits == 0)
}

// Check asks the registry about each schema, then tries the latest rows with the schemas that the relay can use.
func Check(ctx context.Context, o Options, files []File) ([]Result, error) {
	all := make([]Result, 0, len(files))
	for i := range files {
		f := &files[i]
		j, err := o.Registry.Propose(ctx, &f.Proposal)
		if err != nil {
			return nil, err
		}
		r := Result{
			Path: f.Path, Subject: f.Subject, Type: f.Type, New: j.New, Compatible: j.Compatible, Reasons: j.Reasons,
			LatestOnly: j.Latest,
		}
		if j.Unusable != nil {
			r.Unusable = j.Unusable.Error()
		} else if o.Preview != nil {
			e := &counting{Encoder: j.Encoder}
			o.Schemas.encoders[f.Subject], r.Rows = e, &e.Rows
		}
		all = append(all, r)
	}
	if o.Preview == nil {
		return all, nil
	}
	return all, o.Schemas.rows(ctx, *o.Preview, o.Last)
}
