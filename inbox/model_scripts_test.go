package inbox

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the ledger's statements into the file of scripts")

const scriptsFile = "testdata/scripts.json"

// scripts are what two sessions have done with one event's row, with Postgres' answers, which TestScripts in test/inbox
// writes and compares.
type scripts struct {
	Statements map[string]string `json:"statements"`
	Scripts    [][]scriptStep    `json:"scripts"`
}

// scriptStep is a statement of one of the sessions. Its answer is there, or comes when the other session has ended its
// transaction.
type scriptStep struct {
	Side   int           `json:"side"`
	Do     string        `json:"do"` // begin, commit, rollback, or the name of a statement
	Status string        `json:"status,omitempty"`
	Claim  int           `json:"claim,omitempty"` // whose transaction id is meant, counted from 1; 0: none's
	Waits  bool          `json:"waits,omitempty"`
	Answer *scriptAnswer `json:"answer,omitempty"` // of the statement
	Then   *scriptAnswer `json:"then,omitempty"`   // of the other session's, which has waited
}

type scriptAnswer struct {
	Rows  int64 `json:"rows"`
	Value any   `json:"value,omitempty"` // of a claim only that there is one
}

func (l *ledger) statements() map[string]string {
	return map[string]string{
		"lock": lockStatement, "reserve": l.reserve, "complete": l.complete, "confirm": l.confirm, "release": l.release,
		"state": l.state, "prune": l.prune, "each": l.each, "states": l.states,
	}
}

// TestTheModelOfTheServer: the stand-in answers each statement of the scripts as Postgres did, or makes it wait as
// Postgres did.
func TestTheModelOfTheServer(t *testing.T) {
	b, err := os.ReadFile(scriptsFile)
	require.NoError(t, err)
	var all scripts
	require.NoError(t, json.Unmarshal(b, &all))
	l, err := newLedger(Options{Consumer: "billing"})
	require.NoError(t, err)
	if *update {
		all.Statements = l.statements()
		b, err = json.Marshal(all)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(scriptsFile, append(b, '\n'), 0o600))
	}
	require.Equal(t, l.statements(), all.Statements,
		"go test ./inbox -run TestTheModelOfTheServer -update, then go test ./test/inbox -run TestScripts -update")
	waited := 0
	for i, script := range all.Scripts {
		var ticks int64
		r := replay{T: t, l: l, server: newServer(func() time.Time { ticks++; return time.Unix(ticks, 0) })}
		for j, s := range script {
			r.step(s)
			require.False(t, t.Failed(), "script %d, step %d: %+v", i, j, s)
			if s.Waits {
				waited++
			}
		}
	}
	require.Greater(t, len(all.Scripts), 100)
	require.Greater(t, waited, 20, "few scripts make a statement wait")
}

// replay is a script on the stand-in.
type replay struct {
	*testing.T
	l      *ledger
	server *server
	txs    [2]*transaction
	waits  [2]*pending
	asked  [2]string
	claims []string
}

func (r *replay) step(s scriptStep) {
	switch s.Do {
	case "begin":
		r.txs[s.Side] = r.server.begin()
		return
	case "commit", "rollback":
		tx := r.txs[s.Side]
		if s.Do == "commit" {
			require.NoError(r, tx.commit())
		}
		tx.end()
		if w := r.waits[1-s.Side]; w != nil {
			r.waits[1-s.Side] = nil
			a, waits, err := w.toTheEnd()
			require.NoError(r, err)
			require.Nil(r, waits)
			r.compare(r.asked[1-s.Side], a, s.Then)
		}
		return
	}
	p := &pending{tx: r.txs[s.Side], text: r.l.statements()[s.Do], args: r.args(s)}
	a, waits, err := p.toTheEnd()
	require.NoError(r, err)
	require.Equal(r, s.Waits, waits != nil)
	if r.asked[s.Side] = s.Do; waits != nil {
		r.waits[s.Side] = p
		return
	}
	r.compare(s.Do, a, s.Answer)
}

// toTheEnd runs a statement with several ids for all of them, or until it waits.
func (p *pending) toTheEnd() (answer, *transaction, error) {
	for {
		if a, waits, err := p.try(); waits != nil || err != nil || !a.more {
			return a, waits, err
		}
	}
}

func (r *replay) args(s scriptStep) []any {
	switch s.Do {
	case "lock":
		return []any{int64(7), "60000"}
	case "reserve":
		return []any{"billing", "e", s.Status, nil, "60000"}
	case "each":
		return []any{"billing", `{"e","f"}`, s.Status, `{NULL,"t"}`, nil}
	case "states":
		return []any{"billing", `{"e","f"}`}
	case "state":
		return []any{"billing", "e", int64(0)}
	case "prune":
		return []any{"billing", int64(0), 10}
	case "complete":
		return []any{"billing", "e"}
	}
	claim := "0"
	if s.Claim > 0 {
		claim = r.claims[s.Claim-1]
	}
	return []any{"billing", "e", claim}
}

func (r *replay) compare(do string, a answer, want *scriptAnswer) {
	require.NotNil(r, want)
	require.Equal(r, want.Rows, a.rows)
	if do == "reserve" && a.rows == 1 {
		r.claims = append(r.claims, a.value.(string))
		return
	}
	if ids, ok := a.value.([]string); ok {
		a.value = strings.Join(ids, " ")
	}
	require.Equal(r, want.Value, a.value)
}
