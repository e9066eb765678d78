package oracle

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// ReadTruth reads the committed rows from the append-only outbox and their commit order from the oracle's own slot,
// which it leaves as it is. topic makes a topic of an aggregate type. The two sources are compared with each other:
// what only one knows is reported as incorrect.
func ReadTruth(ctx context.Context, conn *pgx.Conn, slot, publication string, topic func(aggregateType string) string,
	rep *Report,
) ([]Row, error) {
	rows, err := conn.Query(ctx,
		`SELECT id::text, aggregate_type, aggregate_id, payload::text, payload IS NULL FROM outbox`)
	if err != nil {
		return nil, err
	}
	byID := map[string]*Row{}
	for rows.Next() {
		var r Row
		var kind string
		var value *string
		var null bool
		if err := rows.Scan(&r.ID, &kind, &r.Key, &value, &null); err != nil {
			return nil, err
		}
		if !null {
			r.Value = []byte(*value)
		}
		r.Topic = topic(kind)
		byID[r.ID] = &r
	}
	if rows.Err() != nil {
		return nil, rows.Err()
	}
	ordered, err := commitOrder(ctx, conn, slot, publication)
	if err != nil {
		return nil, err
	}
	truth := make([]Row, 0, len(byID))
	for _, o := range ordered {
		r, ok := byID[o.ID]
		if !ok {
			rep.add(Incorrect, "the oracle's slot has row %s, which the table has not", o.ID)
			continue
		}
		r.Commit, r.End, r.Index, r.XID = o.Commit, o.End, o.Index, o.XID
		truth = append(truth, *r)
		delete(byID, o.ID)
	}
	for id := range byID {
		rep.add(Incorrect, "the table has row %s, which the oracle's slot has not", id)
	}
	return truth, nil
}

// commitOrder decodes the slot's changes. pg_logical_slot_peek_binary_changes does not move the slot.
func commitOrder(ctx context.Context, conn *pgx.Conn, slot, publication string) ([]Row, error) {
	changes, err := conn.Query(ctx,
		`SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names',
			$2)`, slot, publication)
	if err != nil {
		return nil, err
	}
	defer changes.Close()
	var rows []Row
	idColumn := map[uint32]int{}
	var open Row
	begun := 0
	for changes.Next() {
		var data []byte
		if err := changes.Scan(&data); err != nil {
			return nil, err
		}
		msg, err := pglogrepl.Parse(data)
		if err != nil {
			return nil, err
		}
		switch m := msg.(type) {
		case *pglogrepl.BeginMessage:
			open = Row{Commit: LSN(m.FinalLSN), XID: m.Xid}
			begun = len(rows)
		case *pglogrepl.RelationMessage:
			for i, c := range m.Columns {
				if c.Name == "id" {
					idColumn[m.RelationID] = i
				}
			}
		case *pglogrepl.InsertMessage:
			i, ok := idColumn[m.RelationID]
			if !ok {
				return nil, fmt.Errorf("the oracle's slot sent a row of relation %d without a column id", m.RelationID)
			}
			open.ID = string(m.Tuple.Columns[i].Data)
			rows = append(rows, open)
			open.Index++
		case *pglogrepl.CommitMessage:
			for i := begun; i < len(rows); i++ {
				rows[i].End = LSN(m.TransactionEndLSN)
			}
		}
	}
	return rows, changes.Err()
}
