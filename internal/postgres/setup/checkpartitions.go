package setup

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// checkPartitions looks at each partition that holds rows. A publication holds a partitioned table by its root, and
// says nothing about a partition whose rows never reach the WAL: they are accepted, and never sent.
func checkPartitions(t postgres.OutboxTable) []preflight.Finding {
	var out []preflight.Finding
	for _, p := range t.Unlogged {
		f := preflight.Finding{Level: preflight.Fail, Subject: "table " + t.Table.String()}
		if p.Foreign {
			f.Found = fmt.Sprintf("Its partition %s is a foreign table.", p.Table)
			f.Why = "Rows of it are written on another server and never reach the WAL of this one, so they are never " +
				"sent."
			out = append(out, f.With(fault.Do("Put a table of this server in its place.",
				fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s;", p.Parent.SQL(), p.Table.SQL()))))
			continue
		}
		f.Found = fmt.Sprintf("Its partition %s is unlogged.", p.Table)
		f.Why = "Rows of it never reach the WAL, so they are never sent."
		out = append(out, f.With(fault.Do("Make it a logged table.",
			fmt.Sprintf("ALTER TABLE %s SET LOGGED;", p.Table.SQL())).Then(postgres.Republish())))
	}
	return out
}

// checkAllPartitions does so for every table, while a stream is open: partitions are attached all the time.
func checkAllPartitions(st state) []preflight.Finding {
	var out []preflight.Finding
	for _, t := range st.Tables {
		out = append(out, checkPartitions(t)...)
	}
	return out
}
