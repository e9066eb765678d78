package outboxtable

import (
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Latest hands over the n rows with the latest timestamps, the earlier first; without a timestamp column, the rows with
// the largest ids. It applies no filter.
func (r *Rows) Latest(ctx context.Context, n int,
	take func(rel *pgoutput.Relation, row pgoutput.Tuple, key Key) error,
) error {
	id := identifier.Quote(r.cfg.Columns.ID)
	last, first := id+" DESC", id
	if ts := r.cfg.Columns.Timestamp; ts != "" {
		ts = identifier.Quote(ts)
		last, first = ts+" DESC NULLS LAST, "+last, ts+" NULLS FIRST, "+first
	}
	sql := fmt.Sprintf("SELECT * FROM (SELECT * FROM %s ORDER BY %s LIMIT %d) latest ORDER BY %s", r.table.SQL(), last,
		n, first)
	_, err := r.scan(ctx, sql, nil, take)
	return err
}
