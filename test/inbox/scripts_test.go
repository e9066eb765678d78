package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "make the scripts again, with the answers of this Postgres")

// The scripts, which the model of package inbox follows as well: inbox/model_scripts_test.go describes them.
const scriptsFile = "../../inbox/testdata/scripts.json"

type scriptStep struct {
	Side   int           `json:"side"`
	Do     string        `json:"do"`
	Status string        `json:"status,omitempty"`
	Claim  int           `json:"claim,omitempty"`
	Waits  bool          `json:"waits,omitempty"`
	Answer *scriptAnswer `json:"answer,omitempty"`
	Then   *scriptAnswer `json:"then,omitempty"`
}

type scriptAnswer struct {
	Rows  int64 `json:"rows"`
	Value any   `json:"value,omitempty"`
}

// TestScripts: Postgres answers as it did when the scripts were made, whose answers the model's stand-in gives, too.
func TestScripts(t *testing.T) {
	b := newBed(t)
	text, err := os.ReadFile(scriptsFile)
	require.NoError(t, err)
	var all struct {
		Statements map[string]string `json:"statements"`
		Scripts    [][]scriptStep    `json:"scripts"`
	}
	require.NoError(t, json.Unmarshal(text, &all))
	if *update {
		all.Scripts = nil
		for seed := range uint64(150) {
			all.Scripts = append(all.Scripts, randomScript(rand.New(rand.NewPCG(seed, 1))))
		}
	}
	r := &recorder{T: t, statements: all.Statements}
	for i := range r.sides {
		r.sides[i], err = b.Server.Connect(t.Context(), b.Name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.sides[i].Close(context.Background()) })
	}
	r.watch, err = b.Server.Connect(t.Context(), b.Name)
	require.NoError(t, err)
	defer r.watch.Close(context.Background())
	for i, script := range all.Scripts {
		b.Exec(t, "TRUNCATE processed_events")
		got := r.run(script)
		if *update {
			all.Scripts[i] = got
			continue
		}
		require.Equal(t, script, got, "script %d", i)
	}
	if *update {
		text, err = json.Marshal(all)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(scriptsFile, append(text, '\n'), 0o600))
	}
}

// randomScript is without answers. A step of a session that waits at that point is left out when it runs. Two scripts
// in three begin with a row that is committed, which both sessions then want.
func randomScript(random *rand.Rand) (script []scriptStep) {
	statuses := [...]string{"PROCESSING", "PROCESSING", "COMPLETED"}
	open := [2]bool{}
	if random.IntN(3) > 0 {
		script = []scriptStep{{Do: "begin"}, {Do: "reserve", Status: statuses[random.IntN(3)]}, {Do: "commit"}}
	}
	for range 20 {
		s := scriptStep{Side: random.IntN(2)}
		switch {
		case !open[s.Side]:
			s.Do, open[s.Side] = "begin", true
		case random.IntN(4) == 0:
			s.Do, open[s.Side] = [...]string{"commit", "commit", "rollback"}[random.IntN(3)], false
		default:
			s.Do = [...]string{
				"lock", "reserve", "reserve", "complete", "confirm", "confirm", "release", "release", "state",
				"prune", "states",
			}[random.IntN(11)]
			if script[len(script)-1].Do == "begin" && random.IntN(2) == 0 {
				s.Do = "each"
			}
		}
		switch s.Do {
		case "reserve", "each":
			s.Status = statuses[random.IntN(3)]
		case "confirm", "release":
			s.Claim = 1 + random.IntN(2)
		}
		script = append(script, s)
	}
	for side := range open {
		script = append(script, scriptStep{Side: side, Do: "rollback"})
	}
	return append(script, scriptStep{Side: 0, Do: "rollback"})
}

// recorder runs scripts on Postgres.
type recorder struct {
	*testing.T
	statements map[string]string
	sides      [2]*pgx.Conn
	watch      *pgx.Conn

	open   [2]bool
	used   [2]bool // by a statement of the transaction
	waits  [2]chan scriptAnswer
	asked  [2]string
	claims []string
}

// run returns the steps that were taken, with the answers.
func (r *recorder) run(script []scriptStep) (taken []scriptStep) {
	r.claims = nil
	for _, s := range script {
		begins, ends := s.Do == "begin", s.Do == "commit" || s.Do == "rollback"
		if r.waits[s.Side] != nil || begins == r.open[s.Side] || s.Claim > len(r.claims) ||
			s.Do == "each" && r.used[s.Side] { // after other statements it could wait in a circle
			continue
		}
		r.used[s.Side] = !begins
		s.Waits, s.Answer, s.Then = false, nil, nil
		switch {
		case begins || ends:
			_, err := r.sides[s.Side].Exec(r.Context(), s.Do)
			require.NoError(r, err)
			r.open[s.Side] = begins
			if w := r.waits[1-s.Side]; ends && w != nil {
				s.Then = r.answer(1-s.Side, <-w)
			}
			time.Sleep(2 * time.Microsecond) //waits:ok now() has microseconds
		default:
			r.statement(&s)
		}
		taken = append(taken, s)
	}
	require.Equal(r, [2]bool{}, r.open)
	return taken
}

func (r *recorder) statement(s *scriptStep) {
	answer := make(chan scriptAnswer, 1)
	conn, args := r.sides[s.Side], r.args(*s)
	r.asked[s.Side] = s.Do
	go func() { answer <- ask(conn, r.statements[s.Do], args) }()
	for {
		select {
		case a := <-answer:
			s.Answer = r.answer(s.Side, a)
			return
		case <-time.After(time.Millisecond): //waits:ok the pause between two queries
		}
		var is bool
		require.NoError(r, r.watch.QueryRow(r.Context(), `SELECT coalesce(wait_event_type, '') = 'Lock'
			FROM pg_stat_activity WHERE pid = $1`, conn.PgConn().PID()).Scan(&is))
		if is {
			s.Waits, r.waits[s.Side] = true, answer
			return
		}
	}
}

// answer keeps a claim, of which only is recorded that there is one.
func (r *recorder) answer(side int, a scriptAnswer) *scriptAnswer {
	r.waits[side] = nil
	if id, ok := a.Value.(string); ok && r.asked[side] == "reserve" {
		r.claims, a.Value = append(r.claims, id), nil
	}
	return &a
}

func (r *recorder) args(s scriptStep) []any {
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

// ask returns the number of rows, and the first column where there is one.
func ask(conn *pgx.Conn, text string, args []any) scriptAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if strings.Contains(text, "unnest($4") {
		rows, err := conn.Query(ctx, text, args...)
		if err != nil {
			return scriptAnswer{Value: err.Error()}
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return scriptAnswer{Value: err.Error()}
		}
		return scriptAnswer{Rows: int64(len(ids)), Value: strings.Join(ids, " ")}
	}
	if !strings.HasPrefix(text, "SELECT") && !strings.Contains(text, "RETURNING") {
		tag, err := conn.Exec(ctx, text, args...)
		if err != nil {
			return scriptAnswer{Value: err.Error()}
		}
		return scriptAnswer{Rows: tag.RowsAffected()}
	}
	var value any
	switch err := conn.QueryRow(ctx, text, args...).Scan(&value); {
	case errors.Is(err, pgx.ErrNoRows):
		return scriptAnswer{}
	case err != nil:
		return scriptAnswer{Value: err.Error()}
	}
	return scriptAnswer{Rows: 1, Value: value}
}
