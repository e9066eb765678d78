package prune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
)

// Partition is the report about a partition.
type Partition struct {
	Partition string `json:"partition"`
	State     string `json:"state"` // attached, detach pending, detached, dropped
	Rows      *int64 `json:"rows"`  // null if they were not counted, because it stays regardless of them
	Bytes     int64  `json:"bytes"`
	Dropped   bool   `json:"dropped"`
	Kept      string `json:"kept,omitempty"` // why
}

// Line says it in a line.
func (q *Partition) Line(dryRun bool) string {
	what := "dropped"
	switch {
	case q.Kept != "":
		what = "kept: " + q.Kept
	case dryRun:
		what = "would be dropped"
	case !q.Dropped:
		what = "not dropped yet"
	}
	if q.State == string(outboxtable.Pending) || q.State == string(outboxtable.Detached) {
		what = q.State + "; " + what
	}
	rows := ""
	if q.Rows != nil {
		rows = human.Counted(*q.Rows, "row", "rows") + ", "
	}
	return fmt.Sprintf("%s: %s%d bytes, %s", fault.Printable(q.Partition), rows, q.Bytes, what)
}

// doPartitions drops the partitions that are wholly before the horizon. Each step leaves the catalog in a state from
// which the next run goes on: archived or not, then marked, then detach pending, then detached, then dropped.
func (p *pruning) doPartitions(ctx context.Context) error {
	rows, h, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	list, err := p.listPartitions(ctx, rows)
	mayGo := func(q *outboxtable.Partition) bool { return q.Keep == "" }
	if err != nil || p.o.DryRun || !slices.ContainsFunc(list, mayGo) {
		return errors.Join(err, p.refusal())
	}
	if p.o.Published == "" {
		p.o.Progress.Say(fmt.Sprintf("%s: waiting until the slot has confirmed %s", p.table, h.LSN))
		if err := rows.AwaitConfirmed(ctx, h, p.o.TrustSlot, p.o.Wait); err != nil {
			return err
		}
	}
	var busy []error
	for i, part := range list {
		if part.Keep != "" {
			continue
		}
		err := p.dropPartition(ctx, rows, h, part)
		p.Partitions[i].fill(part)
		p.o.Progress.Say(p.Partitions[i].Line(false))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && fault.KindOf(err) != fault.Retry:
			return err
		case err != nil:
			busy = append(busy, err) // another partition may be free
		}
	}
	return errors.Join(append(busy, p.refusal())...)
}

func (q *Partition) fill(part *outboxtable.Partition) {
	q.State, q.Rows, q.Kept = string(part.State), nil, part.Keep
	if part.Weighed {
		q.Rows = new(part.Rows)
	}
	if q.Dropped = part.State == dropped; q.Dropped {
		q.Kept = ""
	}
}

// dropped is the end of a partition.
const dropped outboxtable.PartitionState = "dropped"

// listPartitions looks at all of them, those first that an earlier run has begun to take out.
func (p *pruning) listPartitions(ctx context.Context, rows *outboxtable.Rows) ([]*outboxtable.Partition, error) {
	all, err := rows.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	order := map[outboxtable.PartitionState]int{outboxtable.Pending: -2, outboxtable.Detached: -1}
	slices.SortStableFunc(
		all, func(a, b outboxtable.Partition) int { return cmp.Compare(order[a.State], order[b.State]) },
	)
	list := make([]*outboxtable.Partition, len(all))
	for i := range all {
		part := &all[i]
		list[i] = part
		// A relay that polls finds a row only while its partition is attached; one that is detached first might have
		// got one.
		part.Shared = part.Shared || p.o.Published != ""
		if part.Keep == "" {
			err = p.weigh(ctx, rows, part)
		}
		if err != nil {
			return nil, err
		}
		q := &Partition{Partition: part.Table.String(), Bytes: part.Bytes}
		q.fill(part)
		p.Partitions = append(p.Partitions, q)
		if part.Keep == "" {
			p.Rows += part.Rows
		}
	}
	return list, nil
}

// weigh counts the partition's rows, and says why it may not go, if so.
func (p *pruning) weigh(ctx context.Context, rows *outboxtable.Rows, part *outboxtable.Partition) error {
	used := []uint32{part.OID}
	if part.State == outboxtable.Attached {
		used = append(used, rows.Root())
	}
	gids, err := rows.PreparedOn(ctx, used...)
	if err == nil {
		err = rows.Weigh(ctx, part)
	}
	switch {
	case err != nil:
	case len(gids) > 0:
		part.Keep = "prepared transactions use it or its parent: " + strings.Join(gids, ", ")
		p.prepared = append(p.prepared, gids...)
	case part.Later > 0:
		part.Keep = fmt.Sprintf(
			"%d of its rows are too young, or not certain to be published because of when they were committed",
			part.Later,
		)
	}
	return err
}

// refusal names the transactions that an operator has to end before a partition can be dropped.
func (p *pruning) refusal() error {
	if len(p.prepared) == 0 {
		return nil
	}
	slices.Sort(p.prepared)
	next := ""
	for _, gid := range slices.Compact(p.prepared) {
		next += "ROLLBACK PREPARED " + identifier.QuoteLiteral(gid) + ";  -- or COMMIT PREPARED\n"
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "table " + p.table.String(),
		Err:  errors.New("prepared transactions keep partitions that are old enough from being dropped"),
		Next: strings.TrimSuffix(next, "\n"),
	}
}

func (p *pruning) dropPartition(
	ctx context.Context, rows *outboxtable.Rows, h outboxtable.Horizon, part *outboxtable.Partition,
) error {
	if p.o.Archive != "" {
		n, err := p.archivePartition(ctx, rows.Root(), h, part)
		if err != nil {
			return err
		}
		part.Rows = n
	}
	if part.State == outboxtable.Pending || part.State == outboxtable.Attached && !part.Shared {
		if err := rows.Detach(ctx, part, p.o.Wait); err != nil {
			return err
		}
	}
	gone, err := rows.Drop(ctx, part, p.o.LockTimeout, p.o.Wait)
	switch {
	case err != nil:
		return err
	case gone:
		part.State = dropped
		p.Deleted += part.Rows
	default:
		part.Keep = "rows came in meanwhile; the next run looks at it again"
	}
	return nil
}

// archivePartition writes all of a partition's rows, as rows of the table.
func (p *pruning) archivePartition(
	ctx context.Context, root uint32, h outboxtable.Horizon, part *outboxtable.Partition,
) (n int64, err error) {
	rows, err := outboxtable.Open(ctx, p.o.DSN, p.o.Admin, part.Table, outboxtable.Filter{})
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	rows.Below(h)
	header, err := p.describe(ctx, rows)
	if err != nil {
		return 0, err
	}
	header.OID = root
	p.after, p.source = nil, part.Table
	done := len(p.Files)
	for more := true; more; {
		if _, more, err = p.collect(ctx, rows, header); err != nil {
			return 0, err
		}
	}
	for _, m := range p.Files[done:] {
		n += m.Rows
	}
	return n, nil
}
