package replay

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/hashjoin"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// foundRow is a row of a table with the topic and id of its record.
type foundRow struct {
	Row
	key    outboxtable.Key
	record *router.Record // valid during the call
	topic  string
	id     []byte      // that the record has; valid during the call
	hash   hashjoin.ID // of id
}

// each routes the rows of a table. bad gets the rows that make no record.
func (r *repair) each(ctx context.Context, table int, bad func(outboxtable.Key), take func(foundRow) error) error {
	var after *outboxtable.Key
	for more := true; more; {
		var err error
		more, err = r.tables[table].Page(ctx, after, pageSize(r.o.Rate), func(
			rel *pgoutput.Relation, tuple pgoutput.Tuple, key outboxtable.Key,
		) error {
			after = &key
			rec, err := r.publisher.route(rel, tuple)
			var no *router.RowError
			if errors.As(err, &no) {
				bad(key)
				return nil
			}
			if err != nil {
				return err
			}
			id, ok := idHeader(rec)
			if !ok {
				return &fault.Error{
					Kind: fault.Config, Object: "repair", Err: errors.New(
						"records have no header with an id, so what Kafka has cannot be compared",
					),
				}
			}
			return take(foundRow{
				Row: Row{Relation: rel, Tuple: tuple}, key: key, record: rec, topic: rec.Topic, id: id,
				hash: hashID(id),
			})
		})
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}
