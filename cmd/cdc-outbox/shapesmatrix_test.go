package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/audit"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/find"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/prune"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
)

// outcome is the exit code of a command, and a text that it prints.
type outcome struct {
	code int
	says string // FOUND is what one of the shapes is found by, ROWS the number of rows
}

const bypass = "BYPASSRLS;"

// whileHidden is the outcome of each command while rows are hidden from the log, or by policies from the role. `run` is
// the ninth, see requireNamed.
var whileHidden = []struct {
	args             []string
	fromLog, byRoles outcome
}{
	{[]string{"check", "--json"}, outcome{3, "FOUND"}, outcome{0, "FOUND"}},
	{[]string{"setup", "--new-slot", "--postgres-slot=other"}, outcome{3, "FOUND"}, outcome{3, "FOUND"}}, // a snapshot
	{[]string{"repair", "--dry-run", "--json"}, outcome{0, `"missing": 1`}, outcome{3, bypass}},
	{[]string{"replay", "--all", "--dry-run"}, outcome{0, "ROWS rows would be published"}, outcome{3, bypass}},
	{[]string{"audit", "--consumer=x", "--grace=0s", "--wait=0s"}, outcome{3, "0 of ROWS events"}, outcome{1, bypass}},
	{
		[]string{"prune", "--older-than=1ms", "--wait=0s"},
		outcome{0, "stay until that is settled"},
		outcome{3, bypass},
	},
	{[]string{"find", "HIDDEN"}, outcome{3, "may be missing from Kafka"}, outcome{3, bypass}},
}

// begin publishes the rows that are there by a snapshot, and more of each table by the log.
func (b *shapesBed) begin() *running {
	role := b.db.Slot + "_r"
	args := []string{"setup", "--new-slot"}
	if b.policies {
		args = append(args, "--role", role)
	}
	r := invoke(b.T, b.env, args...)
	require.Equal(b, 0, r.code, r.all())
	if b.policies {
		b.db.Exec(b, fmt.Sprintf(`GRANT ALL ON ALL TABLES IN SCHEMA public TO %s;
			GRANT CREATE ON SCHEMA public TO %[1]s`, role))
		b.env = append(b.env, "CDC_OUTBOX_POSTGRES_DSN="+strings.Replace(b.db.DSN, "//postgres", "//"+role, 1))
	}
	connector := start(b.T, b.env)
	connector.awaitReady(200)
	for _, s := range b.shapes {
		b.insert(s, "new")
	}
	b.requireOnce("orders.events")
	return connector
}

// requireNamed waits until the connector has ended, by one of the shapes.
func (b *shapesBed) requireNamed(connector *running) {
	select {
	case <-connector.done:
	case <-time.After(time.Minute):
		require.Fail(b, "it goes on", connector.text())
	}
	require.Equal(b, 3, connector.cmd.ProcessState.ExitCode())
	require.True(b, b.names(strings.ReplaceAll(connector.text(), `\"`, `"`)), connector.text())
}

func (b *shapesBed) names(text string) bool {
	return slices.ContainsFunc(b.shapes, func(s shape) bool { return strings.Contains(text, s.found) })
}

// lookWhileHidden compares each command with its outcome, and returns the SQL of check's remedies.
func (b *shapesBed) lookWhileHidden() (remedies []string) {
	lines := make([][]string, len(whileHidden))
	for i, c := range whileHidden {
		lines[i] = slices.Clone(c.args)
		if n := len(c.args) - 1; c.args[n] == "HIDDEN" {
			lines[i][n] = b.hidden[0]
		}
	}
	results := b.together(lines...)
	for i, c := range whileHidden {
		want := c.fromLog
		if b.policies {
			want = c.byRoles
		}
		all := strings.ReplaceAll(results[i].all(), `\"`, `"`)
		require.Equal(b, want.code, results[i].code, "%s: %s", lines[i], all)
		if want.says == "FOUND" {
			require.True(b, b.names(all), "%s: %s", lines[i], all)
			continue
		}
		says := strings.ReplaceAll(want.says, "ROWS", fmt.Sprint(len(b.ids)))
		require.Contains(b, all, says, lines[i])
		if want.says == bypass {
			require.NotRegexp(b, `\b0 (rows|events|of|records)`, results[i].stdout, "it could not look: %s", lines[i])
		}
	}
	if !b.policies {
		b.requireRepaired(results[2], true)
	}
	return b.remedies(results[0])
}

// remedies requires a finding of check for each shape, and returns the SQL of all of them.
func (b *shapesBed) remedies(check result) (all []string) {
	var r report
	require.NoError(b, json.Unmarshal([]byte(check.stdout), &r), check.all())
	for _, s := range b.shapes {
		i := slices.IndexFunc(r.Findings, func(f preflight.Finding) bool {
			return f.Level != preflight.OK && f.Subject == "table "+s.name && strings.Contains(f.Found, s.found)
		})
		require.GreaterOrEqual(b, i, 0, "%s: %s in %s", s.name, s.found, check.stdout)
		for _, command := range r.Findings[i].Commands {
			if strings.HasSuffix(command, ";") && !slices.Contains(all, command) {
				all = append(all, command)
			}
		}
	}
	return all
}

// requireRepaired compares a repair's figures with the rows. A row of the column list is in Kafka without its headers,
// at once or after the restart.
func (b *shapesBed) requireRepaired(r result, dry bool) {
	var tables []replay.Repaired
	require.NoError(b, json.Unmarshal([]byte(r.stdout), &tables), r.all())
	for i, s := range b.shapes {
		require.EqualValues(b, b.of[s.name], tables[i].Rows, s.name)
		require.Zero(b, tables[i].SameID+tables[i].Unrouted, s.name)
		missing := int64(1)
		if b.policies || s.list != "" {
			missing = 0
		}
		if s.list == "" || !dry {
			require.Equal(b, missing, tables[i].Missing, s.name)
		}
	}
}

// lookWhole requires of each command that it sees all rows, and each once.
func (b *shapesBed) lookWhole() {
	connector := start(b.T, b.env)
	connector.awaitReady(200)
	r := invoke(b.T, b.env, "repair", "--json")
	require.Equal(b, 0, r.code, r.all())
	b.requireRepaired(r, false)
	b.requireOnce("orders.events")

	lines := [][]string{
		{"check"},
		{"replay", "--all", "--topic=replayed"},
		{"audit", "--consumer=x", "--grace=0s", "--examples=100", "--json"},
		{"find", "--key=k", "--json"},
		{"find", b.hidden[0], "--json"},
	}
	results := b.together(lines...)
	require.Equal(b, 0, results[0].code, results[0].all())
	b.requireOnce("replayed")
	for _, rec := range b.records("replayed", int64(len(b.ids))) {
		require.Equal(b, "b", header(rec, "a"), "whole, also where a column list had hidden the headers")
	}
	var audited audit.Report
	require.NoError(b, json.Unmarshal([]byte(results[2].stdout), &audited), results[2].all())
	var seen []string
	for _, e := range audited.Consumers[0].Findings[audit.Unhandled].Examples {
		seen = append(seen, e.ID)
	}
	require.ElementsMatch(b, b.ids, seen)
	for i, r := range results[3:] {
		want := b.ids
		if i > 0 {
			want = b.hidden[:1]
		}
		var found find.Report
		require.NoError(b, json.Unmarshal([]byte(r.stdout), &found), r.all())
		require.Equal(b, find.Published, found.Verdict, want)
		seen = nil
		for _, row := range found.Rows {
			require.True(b, row.InKafka, row.EventID)
			seen = append(seen, row.EventID)
		}
		require.ElementsMatch(b, want, seen)
	}

	r = invoke(b.T, b.env, "prune", "--older-than=1ms", "--json")
	require.Equal(b, 0, r.code, r.all())
	var pruned []prune.Table
	require.NoError(b, json.Unmarshal([]byte(r.stdout), &pruned), r.all())
	for i, s := range b.shapes {
		require.EqualValues(b, b.of[s.name], pruned[i].Deleted, s.name)
	}
	require.Equal(b, 0, connector.stop(syscall.SIGTERM))
	b.requireOnce("orders.events")
}

// together runs command lines at once, because most of them wait for the slot.
func (b *shapesBed) together(lines ...[]string) []result {
	b.Helper()
	cmds := make([]*exec.Cmd, len(lines))
	stdout, stderr := make([]bytes.Buffer, len(lines)), make([]bytes.Buffer, len(lines))
	for i, args := range lines {
		cmds[i] = command(b.Context(), b.env, args...)
		cmds[i].Stdout, cmds[i].Stderr = &stdout[i], &stderr[i]
		require.NoError(b, cmds[i].Start())
	}
	results := make([]result, len(lines))
	for i, cmd := range cmds {
		_ = cmd.Wait() // its exit code is part of the outcome
		results[i] = result{cmd.ProcessState.ExitCode(), stdout[i].String(), stderr[i].String()}
	}
	return results
}
