package statusview

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// TestVerdict: one line that answers whether it works, how fast, and how long there is.
//
// Bug (monitor): The first line of `status` was green until `http.stall` had passed, whatever the connector waited for.
// Cost: "✓ streaming" during the first seconds of an outage.
func TestVerdict(t *testing.T) {
	in := func(name relay.StateName, ready bool) connector.Status {
		return connector.Status{State: relay.State{Name: name, Since: time.Unix(0, 0)}, Ready: ready}
	}
	safe := &slotmonitor.Slot{SafeBytes: new(int64(2 << 30))}
	brisk := &page.Pace{EventsPerSecond: new(1198.4), P99Seconds: new(0.0046)}
	soon := in(relay.Streaming, true) // the broker went away a second ago
	soon.Waits = []fault.Wait{{Kind: "broker_unreachable"}}
	snapshot := in(relay.Snapshotting, false)
	snapshot.Snapshot = &connector.SnapshotStatus{Done: 250, Total: 1000}
	for name, c := range map[string]struct {
		st   service.Status
		want string
	}{
		"healthy": {
			service.Status{Status: in(relay.Streaming, true), ReplicationSlot: safe, Pace: brisk},
			"✓ streaming · 1,198/s · p99 4.6 ms · slot safe for 2 GiB",
		},
		"a backlog": {
			service.Status{
				Status: in(relay.Streaming, true),
				ReplicationSlot: &slotmonitor.Slot{
					UnconfirmedBytes: 530 << 20, SecondsToLimit: new(7300.0), SafeBytes: new(int64(1 << 30)),
					Level: alert.Warn,
				},
				Pace: &page.Pace{EventsPerSecond: new(50_000.0), CatchUpSeconds: new(41.5)},
			},
			"! streaming · 50,000/s · 530 MiB to read, caught up in 41 s · slot safe for 1 GiB, 2 h 1 min " +
				"at the present growth",
		},
		"the broker away": {
			service.Status{
				Status: in(relay.Streaming, false), Cause: alert.Cause{Sentence: "The broker is away. It was."},
				ReplicationSlot: &slotmonitor.Slot{SafeBytes: new(int64(-5))},
			},
			"✗ streaming: The broker is away · slot beyond its limit",
		},
		"the broker away for a second": {
			service.Status{
				Status: soon,
				Cause:  alert.Cause{Code: "broker_unreachable", Sentence: "The broker refuses connections."},
			},
			"! streaming: The broker refuses connections",
		},
		"an open transaction": {
			service.Status{
				Status: in(relay.Streaming, true),
				Cause:  alert.Cause{Code: slotmonitor.CauseOpenTransaction, Sentence: "Held back by pid 7."},
			}, "! streaming: Held back by pid 7",
		},
		"an error of another program": {
			service.Status{
				Status: in(relay.Starting, false),
				Cause:  alert.Cause{Sentence: "postgres a:1: cannot connect: dial tcp a:1: refused."},
			}, "✗ starting: postgres a:1: cannot connect",
		},
		"a critical alert": {
			service.Status{
				Status: in(relay.Streaming, true), ReplicationSlot: &slotmonitor.Slot{Level: alert.Critical},
			}, "✗ streaming · slot without limit",
		},
		"waiting": {
			service.Status{Status: in(relay.WaitingForSlot, false)}, "✓ waiting: another instance holds the slot",
		},
		"lost": {
			service.Status{
				Status: in(relay.NotRunning, false), ReplicationSlot: &slotmonitor.Slot{WALStatus: slotmonitor.WALLost},
				Cause: alert.Cause{Sentence: "The slot is lost."},
			}, "✗ not running: The slot is lost · slot lost",
		},
		"a snapshot": {
			service.Status{Status: snapshot, Pace: &page.Pace{EventsPerSecond: new(10.0)}},
			"! snapshot · 10/s · snapshot 25 %, 1 min 15 s left",
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Verdict(&c.st, console.Style{})) })
	}
}

// What is not read is not said to be confirmed.
func TestOldestUnconfirmed(t *testing.T) {
	for name, want := range map[relay.StateName]string{
		relay.Streaming: "oldest unconfirmed  0 s", relay.Halted: "oldest unconfirmed  0 s",
		relay.WaitingForSlot: "oldest unconfirmed  not known", relay.Reconnecting: "oldest unconfirmed  not known",
		relay.NeedsOperator: "oldest unconfirmed  not known",
	} {
		var b strings.Builder
		st := service.Status{Status: connector.Status{State: relay.State{Name: name}}}
		require.NoError(t, Write(&b, st, "http://127.0.0.1:1/status", console.Style{}))
		require.Contains(t, b.String(), want, name)
	}
}
