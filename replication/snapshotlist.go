package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/jackc/pgx/v5"
)

// The rows that are in the outbox when the slot is made are published once, before anything is streamed. Which rows these
// are only the slot's exported snapshot tells, and it is gone with the connection that made the slot. So their ids are
// written down in it, numbered, into a table: the list. It is durable, it does not change when rows come or go, and
// a number in it is a position that a later process understands.
//
// The list exists before the slot, marked as unfinished, and loses the mark in the transaction that fills it. A slot beside
// an unfinished list was made by a setup that was killed in between; nothing was ever streamed from it, so it is dropped and
// made anew with another snapshot. The list is dropped when its last row is published.
const snapshotUnfinished = "cdc-outbox: rows of the snapshot, not listed yet"

// snapshotAt stands between the mark and the position of the slot that was made for the list. A slot that has moved from
// there has been read from, and is not dropped.
const snapshotAt = ", slot made at "

// snapshotTakenOver begins the mark of a list that only CutOver may fill: it is not of all rows.
const snapshotTakenOver = "cdc-outbox: rows taken over from another relay, not listed yet"

const snapshotPrefix = "cdc_outbox_snapshot_"

// snapshotList is the list of one slot; it has no name where there is none.
func snapshotList(o Objects) identifier.Table {
	t := identifier.Table{Name: snapshotPrefix + o.Slot}
	if len(o.Tables) == 0 || len(t.Name) > 63 {
		return identifier.Table{}
	}
	t.Schema = o.Tables[0].Schema
	return t
}

// snapshotInfo is the list as the catalog has it.
type snapshotInfo struct {
	Exists     bool
	Unfinished bool
	TakenOver  bool   // an unfinished one is of a takeover
	Point      string // where the slot was made that belongs to an unfinished list; empty: not known
}

func lookupSnapshot(ctx context.Context, q Querier, list identifier.Table) (snapshotInfo, error) {
	var s snapshotInfo
	if list.Name == "" {
		return s, nil
	}
	var comment string
	err := q.QueryRow(ctx, `SELECT coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text`, list.Schema, list.Name).Scan(&comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read table %s: %w", list, err)
	}
	point, unfinished := strings.CutPrefix(comment, snapshotUnfinished)
	point, takenOver := strings.CutPrefix(point, snapshotTakenOver)
	return snapshotInfo{Exists: true, Unfinished: unfinished || takenOver, TakenOver: takenOver, Point: strings.TrimPrefix(point, snapshotAt)}, nil
}
