package preview

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Options are the source of rows, and how they become records.
type Options struct {
	DSN      string
	Admin    setup.Config // the tables, their columns, the publication
	Router   router.Router
	Policies relay.Policies
}

// Rows gives the records of rows in the tables: of the events with these ids; without ids, of the last rows of each
// table. It returns how many there were. The records have no position, because a table does not know it.
func Rows(ctx context.Context, o Options, ids []string, last int, give func(*Record) error) (n int, err error) {
	for _, table := range o.Admin.Tables {
		err := o.rowsOf(ctx, table, ids, last, func(r *Record) error {
			n++
			return give(r)
		})
		if err != nil {
			return n, err
		}
	}
	return n, o.nothing(n, ids)
}

func (o *Options) rowsOf(
	ctx context.Context, table identifier.Table, ids []string, last int, give func(*Record) error,
) error {
	rows, err := outboxtable.Open(ctx, o.DSN, o.Admin, table, outboxtable.Filter{})
	if err != nil {
		return err
	}
	defer rows.Close()
	var prepared *pgoutput.Relation
	take := func(rel *pgoutput.Relation, row pgoutput.Tuple, _ outboxtable.Key) error {
		if rel != prepared {
			if err := o.Router.Prepare(rel); err != nil {
				return err
			}
			prepared = rel
		}
		rec, err := o.Router.Route(rel, row, router.Source{CommitTime: rows.Began()})
		r, err := o.routed(table.String(), rec, err)
		if err != nil {
			return err
		}
		return give(r)
	}
	if len(ids) == 0 {
		return rows.Latest(ctx, last, take)
	}
	return rows.ByID(ctx, ids, func(rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key, _ bool) error {
		return take(rel, row, key)
	})
}

// nothing is the error if no row was found.
func (o *Options) nothing(n int, ids []string) error {
	if n > 0 {
		return nil
	}
	var names []string
	for _, t := range o.Admin.Tables {
		names = append(names, t.String())
	}
	f := &fault.Error{
		Kind: fault.Operator, Object: "table " + strings.Join(names, ", "), Err: errors.New("it has no rows"),
		Next: "Insert an event and run the command again, or watch the events that are committed from now on.",
	}
	f.Commands = []string{"cdc-outbox run --sink stdout"}
	if len(ids) > 0 {
		f.Err = fmt.Errorf("it has no event with this id (%s)", fault.Printable(strings.Join(ids, ", ")))
		f.Next, f.Commands = "See whether the event is in Kafka.", []string{
			"cdc-outbox find " + fault.Printable(ids[0]),
		}
	}
	return f
}
