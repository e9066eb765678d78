package inbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
)

// mutant is a mistake that could have been made. The zero value is none.
type mutant struct {
	name, refutedIn string
	ledger          func(l *ledger)
	wrap            func(m *modelSession) session
	effectOutside   bool
	commitsFailures bool
	lostIsDone      bool
	failedIsNotSent bool
	impatient       bool
}

func (m *mutant) session(s *modelSession) session {
	if m.wrap != nil {
		return m.wrap(s)
	}
	return s
}

func (m *mutant) ofCommit(err error) error {
	if m.lostIsDone {
		return nil
	}
	return err
}

// mutants, each with the name of the world that refutes it.
var mutants = []*mutant{
	{name: "the effect is outside the transaction", refutedIn: "insert, two deliveries", effectOutside: true},
	{
		name: "the transaction of a failed handler is committed", refutedIn: "insert, two deliveries",
		commitsFailures: true,
	},
	{name: "a commit whose connection is lost counts as done", refutedIn: "insert, two deliveries", lostIsDone: true},
	{
		name: "the claim is committed before the handler runs", refutedIn: "insert, two deliveries",
		wrap: func(m *modelSession) session {
			return meddler{modelSession: m, afterInsert: func() {
				_ = m.tx.commit()
				m.tx = m.actor.world.server.begin()
			}}
		},
	},
	{
		name:      "a claim does not wait, and what it conflicts with is a duplicate",
		refutedIn: "insert, two deliveries", impatient: true,
		wrap: func(m *modelSession) session { return meddler{modelSession: m, noState: "completed"} },
	},
	{
		name:      "a batch does not wait, and what it cannot claim was handled",
		refutedIn: "two batches", impatient: true,
		wrap: func(m *modelSession) session { return meddler{modelSession: m, statesOf: "completed"} },
	},
	{
		name: "a batch claims in the order of its events", refutedIn: "two batches",
		wrap: func(m *modelSession) session { return meddler{modelSession: m, unsorted: true} },
	},
	{
		name: "a batch handles what was handled before", refutedIn: "a batch, and a delivery of each of its events",
		wrap: func(m *modelSession) session { return meddler{modelSession: m, claimsAll: true} },
	},
	{
		name: "an event that is PROCESSING is a duplicate", refutedIn: "forward, two deliveries",
		wrap: func(m *modelSession) session {
			return meddler{modelSession: m, states: map[string]string{"fresh": "completed", "stale": "completed"}}
		},
	},
	{
		name: "a call is COMPLETED before it is made", refutedIn: "forward, two deliveries",
		wrap: func(m *modelSession) session { return meddler{modelSession: m, status: "COMPLETED"} },
	},
	{
		name: "a release ends whatever claim there is", refutedIn: "forward and an operator",
		ledger: func(l *ledger) { l.release = anyClaim(l.release) },
	},
	{
		name: "a completion ends whatever claim there is", refutedIn: "forward and an operator",
		ledger: func(l *ledger) { l.confirm = anyClaim(l.confirm) },
	},
	{name: "a call that fails counts as not sent", refutedIn: "forward, two deliveries", failedIsNotSent: true},
	{
		name: "a claim that is old is taken over", refutedIn: "forward, two deliveries",
		wrap: func(m *modelSession) session { return meddler{modelSession: m, takesOver: true} },
	},
	{
		name: "prune takes unfinished events", refutedIn: "forward and prune",
		ledger: func(l *ledger) { l.prune = strings.ReplaceAll(l.prune, "AND status = 'COMPLETED'", "") },
	},
	{
		name: "an attempt is published whether it is doomed or not", refutedIn: "attempts and a clean up",
		ledger: func(l *ledger) { l.settle = strings.ReplaceAll(l.settle, " AND doomed_at IS NULL", "") },
	},
	{
		name: "a clean up removes what it has not doomed", refutedIn: "an attempt and two clean ups",
		ledger: func(l *ledger) {
			l.doom = strings.ReplaceAll(l.doom, "doomed_at = coalesce(doomed_at, pg_catalog.now())",
				"doomed_at = doomed_at")
		},
	},
	{
		name: "an attempt is forgotten as soon as it was removed", refutedIn: "attempts and a clean up",
		ledger: func(l *ledger) { l.forget, _, _ = strings.Cut(l.forget, "\nAND doomed_at") },
	},
	{
		name: "prune takes young rows", refutedIn: "insert and prune",
		wrap: func(m *modelSession) session { return meddler{modelSession: m, young: true} },
	},
}

func anyClaim(text string) string { return strings.TrimSuffix(text, " AND xmin::text = $3") }

// meddler changes statements and answers in transit.
type meddler struct {
	*modelSession
	afterInsert func()
	noState     string            // instead of no row
	states      map[string]string // instead of what the row's state is
	status      string            // of a claim
	statesOf    string            // instead of what the rows' states are
	takesOver   bool
	young       bool
	unsorted    bool // claims of one of two actors
	claimsAll   bool
}

func (x meddler) texts(ctx context.Context, text string, args ...any) ([]string, error) {
	all := strings.Split(strings.Trim(args[1].(string), `{"}`), `","`)
	if x.unsorted && x.actor.name == "B e f" {
		slices.Reverse(all)
		args[1] = `{"` + strings.Join(all, `","`) + `"}`
	}
	claimed, err := x.modelSession.texts(ctx, text, args...)
	if err == nil && x.claimsAll {
		claimed = all
	}
	return claimed, err
}

func (x meddler) exec(ctx context.Context, text string, args ...any) (int64, error) {
	if x.young && strings.Contains(text, "SKIP LOCKED") {
		args[1] = int64(-1) // of any age
	}
	n, err := x.modelSession.exec(ctx, text, args...)
	if n == 1 && x.afterInsert != nil && strings.HasPrefix(text, "INSERT") {
		x.afterInsert()
	}
	return n, err
}

func (x meddler) scan(ctx context.Context, dest any, text string, args ...any) error {
	claims := strings.HasPrefix(text, "INSERT")
	if x.status != "" && claims {
		args[2] = x.status
	}
	err := x.modelSession.scan(ctx, dest, text, args...)
	none := errors.Is(err, sql.ErrNoRows)
	if claims && none && x.takesOver && x.actor.world.unfinished() {
		if _, err := x.modelSession.exec(ctx, "DELETE", args[0], args[1]); err != nil {
			return err
		}
		return x.modelSession.scan(ctx, dest, text, args...)
	}
	state, ok := dest.(*string)
	switch {
	case !ok || claims:
	case x.statesOf != "" && strings.Contains(text, "bool_and"):
		*state = x.statesOf
	case none && x.noState != "":
		*state, err = x.noState, nil
	case x.states[*state] != "":
		*state = x.states[*state]
	}
	return err
}
