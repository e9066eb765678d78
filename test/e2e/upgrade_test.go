//go:build e2e

package e2e

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// previousVersion is the version that this one replaces: the newest tag, and a revision until there is a tag.
//
//go:embed testdata/previous-version
var previousVersion string

var buildPrevious = sync.OnceValues(func() (string, error) {
	path, dir, err := process.BuildRevision(strings.TrimSpace(previousVersion))
	if err == nil {
		testkit.AtEnd(dir.Remove)
	}
	return path, err
})

// previous is the binary of the previous version.
func previous(t *testing.T) string {
	t.Helper()
	path, err := buildPrevious()
	if errors.Is(err, process.ErrNoRevision) {
		t.Skipf("%v: fetch the whole history to try upgrades", err)
	}
	require.NoError(t, err)
	return path
}

// TestUpgradeAndBack: the previous version and this one take turns over one slot. A graceful change repeats nothing,
// in both directions, also a rolling one, where the next instance waits already; after a kill the promises hold.
func TestUpgradeAndBack(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			versions := []string{previous(t), ""}
			r := newRig(t, surroundings{exactlyOnce: delivery == "exactly_once"})
			p := r.startBinary(versions[0])
			writers := r.oracle.StartWriters(oracle.Load{Pause: time.Millisecond})
			for turn := range 4 {
				r.pause(300*time.Millisecond, 900*time.Millisecond)
				next := versions[(turn+1)%2]
				var successor *process.Process
				if rolling := turn >= 2; rolling {
					successor = r.launchBinary(next)
					require.Eventually(t, func() bool {
						_, why := successor.IsReady()
						return strings.Contains(why, "the slot is held by")
					}, patience, 20*time.Millisecond)
				}
				code, err := p.Stop(patience)
				require.NoError(t, err)
				require.Zero(t, code, p.LogTail(10))
				if successor == nil {
					successor = r.launchBinary(next)
				}
				require.NoError(t, successor.Ready(r.within(patience)))
				p = successor
			}
			r.Logf("written: %+v", writers.Stop())
			r.once()

			writers = r.oracle.StartWriters(oracle.Load{Prepared: true})
			for turn := range soak(8, 4) {
				r.pause(200*time.Millisecond, 900*time.Millisecond)
				p.Kill()
				p = r.launchBinary(versions[(turn+1)%2])
			}
			r.Logf("written: %+v", writers.Stop())
			if report := r.verdict(); delivery == "exactly_once" {
				require.Zero(t, report.Duplicates)
			}
		})
	}
}

// TestUpgradeKeepsWhatOthersRead: what people have built on the previous version works with this one: the
// configuration, the names of the metrics, dead letters, in both directions, and the row of the checkpoint's table.
func TestUpgradeKeepsWhatOthersRead(t *testing.T) {
	t.Parallel()
	before := previous(t)
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	letters := kind + ".letters"
	require.NoError(t, r.kafka.Create(r.within(patience), kafkaclient.Topic{Name: letters}))
	r.env["CDC_OUTBOX_ROUTER_ON_BAD_ROW"], r.env["CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC"] = "dead_letter", letters
	bad := func(id string) {
		r.db.Exec(t, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, headers)
			VALUES ('`+id+`', '`+kind+`', 'k', 'happened', '[1]')`)
	}
	const ofPrevious, ofThis = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"

	p := r.startBinary(before)
	bad(ofPrevious)
	require.NoError(t, r.kafka.Await(r.within(patience), 1, letters))
	metrics := metricNames(t, p)
	stop(t, p)
	p = r.startBinary("")
	bad(ofThis)
	require.NoError(t, r.kafka.Await(r.within(patience), 2, letters))
	until(t, patience, 100*time.Millisecond, func() (bool, string) { // some are there from the first time that it looks
		now := metricNames(t, p)
		metrics = slices.DeleteFunc(metrics, func(name string) bool { return slices.Contains(now, name) })
		return len(metrics) == 0, fmt.Sprint("metrics of the previous version that this one no longer has: ", metrics)
	})
	for _, tool := range []struct{ binary, letter string }{{"", ofPrevious}, {before, ofThis}} {
		require.Contains(t, r.commandOf(tool.binary, "dead-letter", "list", "--open"), tool.letter)
		r.commandOf(tool.binary, "dead-letter", "retry", tool.letter, "--null=headers")
	}
	require.NoError(t, r.kafka.Await(r.within(patience), 2, topic))
	for _, binary := range []string{"", before} {
		require.NotContains(t, r.commandOf(binary, "dead-letter", "list", "--open"), "0000-0000")
	}
	stop(t, p)

	var dump map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(r.commandOf(before, "config")), &dump))
	delete(dump, "polling") // versions before 0.1.0 print it with any source
	text, err := yaml.Marshal(dump)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	clear(r.env) // all of it is in the file
	require.Contains(t, r.commandOf("", "config", "--config="+file), letters)
}

func stop(t *testing.T, p *process.Process) {
	t.Helper()
	code, err := p.Stop(patience)
	require.NoError(t, err)
	require.Zero(t, code, p.LogTail(10))
}

// metricNames are the names of the metric families that a process exports.
func metricNames(t *testing.T, p *process.Process) (names []string) {
	t.Helper()
	code, body, err := p.Get("/metrics")
	require.NoError(t, err)
	require.Equal(t, 200, code)
	for line := range strings.Lines(body) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" {
			names = append(names, f[2])
		}
	}
	require.Greater(t, len(names), 30)
	return names
}
