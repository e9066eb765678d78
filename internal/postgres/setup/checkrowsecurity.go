package setup

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// codeRowSecurity is the code of findings about policies. Programs rely on it.
const codeRowSecurity = "row_security"

// checkRowSecurity is about a table whose policies apply to the role. The stream has every row, whatever a policy says,
// so whatever compares the table with it must see every row, too.
func checkRowSecurity(cfg Config, st state, t postgres.OutboxTable) preflight.Finding {
	f := preflight.Finding{
		Level: preflight.Warn, Code: codeRowSecurity, Subject: "table " + t.Table.String(),
		Found: fmt.Sprintf("Row security applies to role %q.", st.Server.User),
		Why: "The stream has every row. Commands that read the table, such as repair, replay, find and prune, fail " +
			"instead of leaving rows out.",
	}
	if cfg.Snapshot && !st.Slot.Exists {
		f.Level, f.Why = preflight.Fail, "The snapshot would leave out the rows that policies hide."
	}
	return f.With(postgres.SeeAllRows(st.Server.User))
}
