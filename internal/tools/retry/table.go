package retry

import (
	"context"
	"errors"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// fromTable reads the letter's row from the outbox table, in the text forms that the log would have given.
func (re *rebuilder) fromTable(ctx context.Context, l *deadletter.Letter) (*deadletter.Row, error) {
	if !l.HasID || l.CutID() && l.IDHash == "" {
		return nil, errors.New(
			"the dead letter does not hold the row, and without the event's id it cannot be looked up in the table",
		)
	}
	if err := re.connect(ctx); err != nil {
		return nil, err
	}
	var found *deadletter.Row
	for _, t := range re.Tables {
		if l.Table != "" && len(re.Tables) > 1 && l.Table != t.Schema+"."+t.Name {
			continue // a partition's letter has the partition's name: then the only table is the one
		}
		rows, err := re.lookUp(ctx, t, l)
		if err != nil {
			return nil, &fault.Error{Kind: fault.Operator, Object: "table " + t.String(), Err: err}
		}
		if len(rows) > 1 || len(rows) == 1 && found != nil {
			return nil, errors.New("the table has several rows with the event's id")
		}
		if len(rows) == 1 {
			found = rows[0]
		}
	}
	if found == nil {
		return nil, errors.New(
			"the dead letter does not hold the row, and the outbox table does not have it any more; insert the event " +
				"again",
		)
	}
	return found, nil
}

func (re *rebuilder) connect(ctx context.Context) error {
	if re.conn != nil {
		return nil
	}
	var err error
	re.conn, err = postgres.Open(ctx, re.DSN, postgres.ConnectOptions{Settings: session.TextSettings(), Rows: true})
	return err
}

// lookUp asks by the simple protocol, whose values are texts. The id is a literal without a type, so that the server
// takes it for one of the column's and finds it by the index. For an id too long for the letter the whole table is
// searched by its hash.
func (re *rebuilder) lookUp(ctx context.Context, t identifier.Table, l *deadletter.Letter) ([]*deadletter.Row, error) {
	column := identifier.Quote(re.IDColumn)
	where := column + " = " + identifier.QuoteLiteral(l.ID)
	if l.CutID() {
		where = fmt.Sprintf(
			"sha256(convert_to(%s::text, 'UTF8')) = decode(%s, 'hex')", column, identifier.QuoteLiteral(l.IDHash),
		)
	}
	sql := fmt.Sprintf("SELECT * FROM %s WHERE %s LIMIT 2", t.SQL(), where)
	results, err := re.conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows []*deadletter.Row
	for _, r := range results {
		for _, values := range r.Rows {
			rel := &pgoutput.Relation{Namespace: t.Schema, Name: t.Name}
			tuple := make(pgoutput.Tuple, len(values))
			for i, v := range values {
				f := &r.FieldDescriptions[i]
				rel.OID = f.TableOID
				rel.Columns = append(
					rel.Columns, pgoutput.Column{Name: f.Name, TypeOID: f.DataTypeOID, Modifier: f.TypeModifier},
				)
				tuple[i].Kind = pgoutput.Null
				if v != nil {
					tuple[i] = pgoutput.Value{Kind: pgoutput.Text, Data: v}
				}
			}
			rows = append(rows, deadletter.RowOf(rel, tuple))
		}
	}
	return rows, nil
}
