package setup

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// checkLogged looks at the table and at each part of it. A publication holds a partitioned table by its root, and FOR
// ALL TABLES holds whatever there is; neither says anything about a table whose rows never reach the WAL.
func checkLogged(t postgres.OutboxTable) []preflight.Finding {
	var out []preflight.Finding
	fail := func(found, why string, r fault.Remedy) {
		f := preflight.Finding{Level: preflight.Fail, Subject: "table " + t.Table.String(), Found: found, Why: why}
		out = append(out, f.With(r))
	}
	logged := func(table identifier.Table) fault.Remedy {
		return fault.Do("Make it a logged table.", fmt.Sprintf("ALTER TABLE %s SET LOGGED;", table.SQL())).
			Then(postgres.Republish())
	}
	if kind, ok := map[string]string{"u": "unlogged", "t": "temporary"}[t.Persistence]; ok {
		fail(fmt.Sprintf("It is %s.", kind), "Its rows never reach the WAL, so they are never sent.", logged(t.Table))
	}
	part, takeOut := "partition", "ALTER TABLE %[2]s DETACH PARTITION %[1]s;"
	if !t.Partitioned() {
		part, takeOut = "child", "ALTER FOREIGN TABLE %[1]s NO INHERIT %[2]s;"
	}
	for _, p := range t.Parts {
		switch {
		case p.Foreign:
			fail(fmt.Sprintf("Its %s %s is a foreign table.", part, p.Table),
				"Rows of it are written on another server and never reach the WAL of this one, so they are never sent.",
				fault.Do("Put a table of this server in its place.",
					fmt.Sprintf(takeOut, p.Table.SQL(), p.Parent.SQL())))
		case !p.Logged:
			fail(fmt.Sprintf("Its %s %s is unlogged.", part, p.Table),
				"Rows of it never reach the WAL, so they are never sent.", logged(p.Table))
		}
	}
	return out
}

// checkAllLogged does so for every table, while a stream is open: partitions are attached all the time.
func checkAllLogged(st state) []preflight.Finding {
	var out []preflight.Finding
	for _, t := range st.Tables {
		out = append(out, checkLogged(t)...)
	}
	return out
}
