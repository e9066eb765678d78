package webhook

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

var update = flag.Bool("update", false, "rewrite testdata")

// causes are one of each code, in the words of what makes them.
func causes() map[string]alert.Cause {
	streaming := relay.State{Name: relay.Streaming, Since: began}
	read := &slotmonitor.Slot{Name: "orders", Active: true, PID: 5}
	full := relay.Window{Records: 500, MaxRecords: 500, Bytes: 180_000, MaxBytes: 32 << 20}
	waits := func(kind, object, reason, next string, commands ...string) relay.Account {
		return relay.Account{State: streaming, Waits: []fault.Wait{{
			Kind: kind, Object: object, Reason: reason, Next: next, Commands: commands, Since: began,
		}}}
	}
	all := map[string]alert.Cause{}
	add := func(st relay.Account, slot *slotmonitor.Slot) {
		st.Slot = "orders"
		c := diagnose.Cause(st, slot, now)
		all[c.Code] = c
	}
	add(relay.Account{State: streaming}, read)
	add(relay.Account{State: streaming, Window: relay.Window{Records: 5}}, read)
	add(relay.Account{State: streaming, Window: relay.Window{Records: 5}, OldestUnconfirmedSeconds: 30}, read)
	add(relay.Account{State: streaming, Window: full, WindowFull: true, OldestUnconfirmedSeconds: 60}, read)
	add(relay.Account{
		State: streaming, Open: &relay.OpenTx{CommitLSN: "0/16B374D8", Rows: 1_250_000},
		OldestUnconfirmedSeconds: 60,
	}, read)
	add(relay.Account{State: streaming}, &slotmonitor.Slot{
		Name: "orders", Active: true, UnconfirmedBytes: 1 << 30,
		ConfirmedSince: &began,
	})
	add(relay.Account{
		State: relay.State{Name: relay.Halted},
		Halted: []*relay.HaltedRow{{
			EventID: "e-1", LSN: "0/16B374D8",
			Message: `column headers: it is not a JSON object, <b> & "quotes"`,
			Next:    "Correct what the application writes there.", Since: began,
		}},
	}, read)
	for _, w := range [][]string{
		{
			string(sink.BrokerUnreachable), "broker kafka-1:9092", "The broker at kafka-1:9092 refuses connections.",
			"Start the broker, or correct kafka.brokers.",
		},
		{
			string(sink.NotAuthenticated), "broker kafka-1:9092", "SASL authentication failed",
			"Correct kafka.sasl.password.",
		},
		{
			string(sink.NoToken), "token for Kafka",
			"SASL OAUTHBEARER: the token endpoint https://login.example/token gives no token: it refuses connections.",
			"Check that the identity provider runs.",
		},
		{
			string(sink.NotAuthorized), `topic "order.events"`, "access denied",
			"Allow it.", "kafka-acls.sh --add --allow-principal User:cdc-outbox --operation Write --topic order.events",
		},
		{
			string(sink.TopicMissing), `topic "order.events"`, "it does not exist",
			"Create it.", "kafka-topics.sh --create --topic order.events",
		},
		{
			string(sink.RegistryUnreachable), "schema registry https://registry.example",
			`rows wait for the id of subject "order.events-value", version latest: it refuses connections`,
			"Look at the registry.",
		},
		{
			string(sink.RegistryRefuses), "schema registry https://registry.example",
			`rows wait for the id of subject "order.events-value", version 3: it answers 401 Unauthorized`,
			"Correct router.registry.username and router.registry.password.",
		},
		{string(sink.NoLeader), "partition order.events/3", "no broker leads it", ""},
		{
			string(sink.NotEnoughReplicas), "partition order.events/3",
			"fewer in-sync replicas than min.insync.replicas", "Start the brokers that are down.",
		},
		{string(sink.NoProducerID), "kafka", "InitProducerID fails: COORDINATOR_NOT_AVAILABLE", ""},
		{
			string(sink.RecordTooLarge), "partition order.events/3",
			"a record of 2000000 bytes is larger than the topic takes",
			"Raise the limit.", "kafka-configs.sh --alter --add-config max.message.bytes=2000100",
		},
		{
			string(sink.Rejected), "partition order.events/3", "INVALID_TIMESTAMP",
			"Look at the topic's message.timestamp settings.",
		},
		{
			slotmonitor.CauseLost, `slot "orders"`, "the server has removed what it needs",
			"Drop it and create it again.", "SELECT pg_catalog.pg_drop_replication_slot('orders');",
			"cdc-outbox slot recreate",
		},
		{diagnose.SlotMissing, `slot "orders"`, "there is none", "Create it.", "cdc-outbox slot recreate"},
		{diagnose.PostgresUnreachable, `slot "orders"`, "connection refused", ""},
	} {
		add(waits(w[0], w[1], w[2], w[3], w[4:]...), nil)
	}
	for name, reason := range map[relay.StateName]string{
		relay.WaitingForSlot: "held by backend 5", relay.Draining: "",
		relay.Reconnecting: "permission denied",
	} {
		add(relay.Account{State: relay.State{Name: name, Reason: reason, Since: began}}, read)
	}
	add(relay.Account{State: relay.State{Name: relay.NotRunning, Reason: "nothing answers"}},
		&slotmonitor.Slot{Active: true, PID: 8})
	for _, c := range []alert.Cause{ // in the monitor's words
		{
			Code: slotmonitor.CauseOpenTransaction,
			Sentence: "Held back by pid 7, application psql, user app, idle in transaction for 1 h; its last " +
				"statement began 59 min ago.", Since: &began, Object: "pid 7", Next: "End it.",
			Commands: []string{"SELECT pg_catalog.pg_terminate_backend(7);"},
		},
		{
			Code:     slotmonitor.CauseNoConsumer,
			Sentence: "No session has read the slot since 2026-01-02T03:04:05Z (1 h).",
			Since:    &began, Object: `slot "orders"`, Next: "Start its reader.",
		},
		{
			Code:     slotmonitor.CauseReader,
			Sentence: `Its reader (pid 8, application "x<y>&z") has 3 GiB left to confirm.`,
			Object:   "pid 8", Next: "See why the reader makes no progress.",
		},
		{
			Code: slotmonitor.CauseStandbyCopy, Sentence: "It is a standby's copy and moves with the primary's slot.",
			Object: `slot "orders"`,
		},
	} {
		all[c.Code] = c
	}
	return all
}

// cases are each alert in each state, and each cause.
func cases() map[string]alert.Event {
	left, growth, safe := 5400.0, 2e6, int64(8<<30)
	figures := slotmonitor.Figures{
		Database: "shop", Active: true, WALStatus: "extended", RetainedBytes: 12 << 30, UnconfirmedBytes: 11 << 30,
		SafeBytes:       &safe,
		GrowthPerSecond: &growth, SecondsToLimit: &left, RestartLSN: "0/16B00000", ConfirmedFlushLSN: "0/16B374D8",
	}
	all := map[string]alert.Event{}
	for code, cause := range causes() {
		all["cause "+code] = alert.Event{
			Alert: diagnose.EventsUnconfirmed, Subject: "orders", State: alert.Firing, Level: alert.Warn, Since: began,
			At: now, Cause: cause,
			Sentence: "The oldest transaction that is not confirmed was committed 1 h ago.", Figures: figures,
		}
	}
	open := causes()[slotmonitor.CauseOpenTransaction]
	for _, rule := range slices.Concat(slotmonitor.Rules(), diagnose.Rules()) {
		e := alert.Event{
			Alert: rule, Subject: "orders", State: alert.Firing, Level: alert.Critical, Since: began, At: now,
			Sentence: "The slot <orders> & \"its\" log: 12 GiB.", Cause: open, Figures: figures,
		}
		all["alert "+rule+" fires"] = e
		e.Level, e.Before, e.Repeated = alert.Critical, alert.Warn, true
		all["alert "+rule+" still fires, worse"] = e
		e.State, e.Repeated, e.Cause, e.Before = alert.Resolved, false, alert.Cause{}, alert.Critical
		all["alert "+rule+" is over"] = e
	}
	return all
}

// TestBodies compares what is posted, in each format, for each alert in each state and for each cause, with what it
// was. deploy/testdata/rules reads the files with Alertmanager's own types.
func TestBodies(t *testing.T) {
	require.Len(t, causes(), 30, "two cases with one code would hide each other")
	for _, name := range Formats {
		t.Run(name, func(t *testing.T) {
			bodies := map[string]json.RawMessage{}
			for what, e := range cases() {
				bodies[what] = formats[name].body([]alert.Event{e}, now, section)
			}
			got, err := json.MarshalIndent(bodies, "", " ")
			require.NoError(t, err)
			path := filepath.Join("testdata", name+".json")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			if !bytes.Equal(bytes.TrimSpace(want), got) {
				require.Equal(t, string(want), string(got)+"\n")
			}
		})
	}
}

// Slack takes 40,000 characters of a text and shows about 4,000; one that is longer is cut where it says least. What
// the message can quote comes from outside: a row's error, an application's name.
//
// Bug (monitor): A message to Slack was as long as the error in it. Cost: an alert that Slack cuts off before the link
// to its runbook.
func TestSlackStaysReadable(t *testing.T) {
	for _, filling := range []string{"x", "&", "<!channel> ", "ü", "\xff"} {
		e := example()
		long := strings.Repeat(filling, 100_000)
		e.Sentence, e.Cause.Sentence, e.Cause.Next = "It waits: "+long, "Because "+long, long
		var m map[string]string
		require.NoError(t, json.Unmarshal(slackBody([]alert.Event{e}, now, section), &m))
		text := m["text"]
		require.LessOrEqual(t, utf8.RuneCountInString(text), 3000)
		require.True(t, utf8.ValidString(text))
		require.True(t, strings.HasSuffix(text, "\n<"+section(e.Alert)+"|What to do>"), "the end is kept")
		require.NotContains(t, text, "<!")
		require.NotRegexp(t, `&(?:a|am|amp|l|lt|g|gt)?…`, text, "no half of an escape")
		require.Equal(t, 3, strings.Count(text, "…"), fmt.Sprintf("%q", filling))
	}
}

// A receiver that hangs delays neither Send nor, for longer than its time-out, the next attempt.
func TestRequestTimeout(t *testing.T) {
	require.Equal(t, requestTimeout, newClient().http.Timeout)
	require.LessOrEqual(t, requestTimeout, 10*time.Second)
}
