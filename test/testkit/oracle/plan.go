package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// end is how a transaction ends.
type end int

const (
	commit end = iota
	rollback
	prepareCommit
	prepareRollback
)

// plan is one transaction, drawn from the schedule before anything runs: a statement list, so that it reaches the
// server in one message and commits come back to back.
type plan struct {
	sql  string
	gid  string // of a prepared transaction
	ends end
	rows int // that stay when it commits
}

// planner draws transactions; the same seed draws the same ones.
type planner struct {
	rng      *rand.Rand
	kinds    []string // aggregate types
	keys     int
	prepared bool
	gids     string // prefix of the names of prepared transactions
	n        int
}

// next draws a transaction of one to six rows. Counters are locked in one order over all transactions, so writers wait
// for each other but never deadlock; rows after a rolled-back savepoint only go on in that order.
func (p *planner) next() plan {
	p.n++
	var tx plan
	switch r := p.rng.IntN(100); {
	case r < 15:
		tx.ends = rollback
	case p.prepared && r < 18:
		tx.ends = prepareCommit
	case p.prepared && r < 19:
		tx.ends = prepareRollback
	}
	slots := make([]int, 1+p.rng.IntN(6))
	for i := range slots {
		slots[i] = p.rng.IntN(p.keys * len(p.kinds))
	}
	slices.Sort(slots)
	var sql strings.Builder
	sql.WriteString("BEGIN;")
	depth := 0
	kept := []int{0} // rows by savepoint depth
	for _, slot := range slots {
		if p.rng.IntN(5) == 0 && depth < 3 {
			depth++
			kept = append(kept, 0)
			fmt.Fprintf(&sql, "SAVEPOINT s%d;", depth)
		}
		p.insert(&sql, slot)
		kept[depth]++
		if depth > 0 && p.rng.IntN(2) == 0 {
			if p.rng.IntN(2) == 0 {
				fmt.Fprintf(&sql, "ROLLBACK TO s%d;RELEASE s%d;", depth, depth)
			} else {
				fmt.Fprintf(&sql, "RELEASE s%d;", depth)
				kept[depth-1] += kept[depth]
			}
			kept = kept[:depth]
			depth--
		}
	}
	for _, n := range kept {
		tx.rows += n
	}
	switch tx.ends {
	case rollback:
		sql.WriteString("ROLLBACK")
	case commit:
		sql.WriteString("COMMIT")
	default:
		tx.gid = fmt.Sprintf("%s%d", p.gids, p.n)
		fmt.Fprintf(&sql, "PREPARE TRANSACTION %s", quote(tx.gid))
	}
	tx.sql = sql.String()
	return tx
}

// insert writes one row whose payload carries the key's counter, taken inside the transaction: committed rows of a key
// count 1, 2, 3 without a gap. Sizes vary up to beyond a page (TOAST); some payloads are NULL.
func (p *planner) insert(sql *strings.Builder, slot int) {
	kind, key := p.kinds[slot/p.keys], fmt.Sprintf("key-%d", slot%p.keys)
	pad := p.rng.IntN(60)
	if p.rng.IntN(100) == 0 {
		pad = 20000
	}
	payload := fmt.Sprintf(`jsonb_build_object('n', n, 'tx', pg_current_xact_id()::text, 'pad', %s, 'money', 1.50)`,
		quote(strings.Repeat("Zoë ✓ ", pad/6)))
	if p.rng.IntN(50) == 0 {
		payload = "NULL"
	}
	fmt.Fprintf(sql,
		`WITH c AS (INSERT INTO oracle_counter AS o VALUES (%[1]s, %[2]s, 1) ON CONFLICT (kind, key) DO UPDATE
			SET n = o.n + 1 RETURNING n) `+
			`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) SELECT %[1]s, %[2]s,
				'happened', %[3]s, jsonb_build_object('n', n::text) FROM c;`,
		quote(kind), quote(key), payload)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func identifier(s string) string { return pgx.Identifier{s}.Sanitize() }
