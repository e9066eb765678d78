package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/jackc/pgx/v5"
)

// The rows that are in the outbox when the slot is created are published once, before anything is streamed. Only the
// slot's exported snapshot shows which rows these are, and the exported snapshot ends with the connection that created
// the slot. So setup writes their ids, numbered, into a table while the snapshot exists: the list. The list is durable,
// it does not change when rows come or go, and a number in it is a position that a later process understands.
//
// The list exists before the slot, marked as unfinished, and loses the mark in the transaction that fills it. A slot
// beside an unfinished list was created by a setup that was killed in between; nothing was ever streamed from it, so it
// is dropped and re-created with another snapshot. The list is dropped when its last row is published.
const Unfinished = "cdc-outbox: rows of the snapshot, not listed yet"

// MadeAt separates the mark from the position of the slot that was created for the list. A slot that has moved from
// there has been read from, and is not dropped.
const MadeAt = ", slot made at "

// CutOverUnfinished begins the mark of a list that only CutOver may fill: it is not of all rows.
const CutOverUnfinished = "cdc-outbox: rows taken over from another relay, not listed yet"

// HealUnfinished begins the mark of a list that only a heal may fill: of rows that Kafka does not have.
const HealUnfinished = "cdc-outbox: rows that Kafka does not have, not listed yet"

// healed begins the mark of such a list that is filled. The rest is a Settlement.
const healed = "cdc-outbox: rows that Kafka does not have: "

// Settlement is what a list settles once its last row is published.
type Settlement struct {
	Missing int64   `json:"missing"` // rows of the list
	Gaps    []int64 `json:"gaps"`    // their numbers
}

// Mark is the comment on the list.
func (s Settlement) Mark() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers
	}
	return healed + string(b)
}

const Prefix = "cdc_outbox_snapshot_"

// List is the list of one slot; it has no name where there is none.
func List(o postgres.Objects) identifier.Table {
	t := identifier.Table{Name: Prefix + o.Slot}
	if len(o.Tables) == 0 || len(t.Name) > 63 {
		return identifier.Table{}
	}
	t.Schema = o.Tables[0].Schema
	return t
}

// ListState is the list as the catalog has it.
type ListState struct {
	Exists     bool
	Unfinished bool
	CutOver    bool        // an unfinished one is of a takeover
	Heal       bool        // the list is of rows that Kafka does not have
	Settles    *Settlement // of a heal that is finished
	Point      string      // where the slot was made that belongs to an unfinished list; empty: not known
}

// LookupList reads the state of the list from its table and the comment on it; list without a name: there is none.
func LookupList(ctx context.Context, q postgres.Querier, list identifier.Table) (ListState, error) {
	var s ListState
	if list.Name == "" {
		return s, nil
	}
	var comment string
	err := q.QueryRow(ctx,
		`SELECT coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_catalog.pg_class c
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text`, list.Schema, list.Name).Scan(&comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read table %s: %w", list, err)
	}
	point, unfinished := strings.CutPrefix(comment, Unfinished)
	point, takenOver := strings.CutPrefix(point, CutOverUnfinished)
	point, healing := strings.CutPrefix(point, HealUnfinished)
	s = ListState{
		Exists: true, Unfinished: unfinished || takenOver || healing, CutOver: takenOver, Heal: healing,
		Point: strings.TrimPrefix(point, MadeAt),
	}
	if text, ok := strings.CutPrefix(comment, healed); ok {
		s.Heal, s.Settles = true, &Settlement{}
		if err := json.Unmarshal([]byte(text), s.Settles); err != nil {
			return s, fmt.Errorf("read the comment on table %s: %w", list, err)
		}
	}
	return s, nil
}
