package outboxtable

import (
	"context"
	"encoding/json"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// Estimate is about how many rows the filter chooses, as the planner believes: counting would read them all. 0: it does
// not know.
func (r *Rows) Estimate(ctx context.Context) (int64, error) {
	timed := r.cfg.Columns.Timestamp != ""
	sql, args := r.query(nil, timed, maxEstimate)
	result := r.conn.PgConn().ExecParams(ctx, "EXPLAIN (FORMAT JSON) "+sql, args, nil, nil, nil).Read()
	if result.Err != nil {
		return 0, postgres.QueryFault("table "+r.table.String(), result.Err)
	}
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		}
	}
	if len(result.Rows) != 1 {
		return 0, nil
	}
	if err := json.Unmarshal(result.Rows[0][0], &plans); err != nil || len(plans) != 1 {
		return 0, err
	}
	return int64(plans[0].Plan.Rows), nil
}

// maxEstimate is a limit that no table reaches: the plan is to be one for all rows.
const maxEstimate = 1 << 40
