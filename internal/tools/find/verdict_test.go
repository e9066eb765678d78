package find

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestJudge: one verdict for each thing that can be known, the strongest evidence first.
func TestJudge(t *testing.T) {
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	row := Row{Table: "public.outbox", EventID: "e1", Topic: "order.events", Timestamp: &at}
	record := Record{Topic: "order.events", Partition: 3, Offset: 7, EventID: "e1", Timestamp: at}
	replayed := record
	replayed.Replayed, replayed.Offset = "run", 9
	letter := &deadletter.Entry{
		Summary: deadletter.Summary{ID: "e1", Reason: "null_key", Detail: "the key is NULL", Written: at},
		State:   deadletter.Open,
	}
	retried := *letter
	retried.State, retried.RetriedAt = deadletter.Retried, at
	one := Searched{Topics: []string{"order.events"}}
	closed := (&fault.Error{Object: "table", Err: errors.New("row security")}).With(postgres.SeeAllRows("r"))
	behind := &Slot{Name: "s", Active: true, UnconfirmedBytes: 2 << 20}
	for name, c := range map[string]struct {
		r        Report
		want     Verdict
		sentence string
		command  string
	}{
		"a record": {
			Report{Rows: []Row{row}, Records: []Record{record}, Complete: true},
			Published,
			"Published: topic order.events, partition 3, offset 7.", "",
		},
		"a record where not everything was searched": {
			Report{Records: []Record{record}}, Published, "Published: topic", "",
		},
		"two records": {
			Report{Records: []Record{record, record}}, Published, "Published 2 times, the first time at topic", "",
		},
		"two rows": {
			Report{Rows: []Row{row, row}, Records: []Record{record, record}},
			Published,
			"2 rows have this id, and Kafka has 2 records with it", "cdc-outbox check",
		},
		"a record and a replay": {
			Report{Records: []Record{record, replayed}}, Published, "offset 7. It was replayed once.", "",
		},
		"a replay alone": {Report{Records: []Record{replayed}}, Published, "Published by a replay or a repair: ", ""},
		"a record and a letter": {
			Report{Records: []Record{record}, Letters: []*deadletter.Entry{letter}}, Published, "Published: ", "",
		},
		"a letter": {
			Report{Rows: []Row{row}, Letters: []*deadletter.Entry{letter}, Complete: true},
			DeadLettered,
			"Dead-lettered at 2026-01-31T08:00:00Z: the key is NULL (null_key).",
			"cdc-outbox dead-letter retry e1",
		},
		"a letter that was retried": {
			Report{Letters: []*deadletter.Entry{&retried}, Complete: true, Kafka: one},
			DeadLettered,
			"retried at 2026-01-31T08:00:00Z, and topic order.events does not have it", "dead-letter show e1",
		},
		"a bad row": {
			Report{Rows: []Row{{Bad: "the key is NULL (null_key)", Policy: "halt"}}, Complete: true},
			Bad,
			"The row cannot become a record: the key is NULL (null_key). The policy for it is halt.", "status --why",
		},
		"a row, Kafka away":   {Report{Rows: []Row{row}}, Unsearched, "Whether Kafka has it is not known.", ""},
		"nothing, Kafka away": {Report{}, Unsearched, "No table has the row.", ""},
		"nothing, the table closed": {
			Report{Complete: true, unread: closed},
			Unsearched,
			"Whether a table has the row is not known. Kafka does not have the event.", "BYPASSRLS",
		},
		"nothing can be read": {
			Report{unread: closed},
			Unsearched,
			"Whether a table has the row is not known. Whether Kafka has the event is not known.", "BYPASSRLS",
		},
		"a row, another table closed": {
			Report{Rows: []Row{row}, Complete: true, Kafka: one, unread: closed}, Waiting, "not in Kafka yet", "",
		},
		"a row that may be hidden": {
			Report{Rows: []Row{row}, Complete: true, Slot: &Slot{Name: "s"}, Gaps: []gap.Gap{{ID: 3}}},
			Waiting, "Gap 3: ", "cdc-outbox check",
		},
		"nothing": {Report{Complete: true}, Unknown, "No row and no record has this id.", ""},
		"a row, the slot before": {
			Report{Rows: []Row{row}, Complete: true, Slot: behind}, Waiting, "the slot has 2 MiB left", "status --why",
		},
		"a row, the slot unread": {
			Report{Rows: []Row{row}, Complete: true, Slot: &Slot{Name: "s"}},
			Waiting, `no process reads slot "s"`,
			"status --why",
		},
		"a row, polled": {Report{Rows: []Row{row}, Complete: true}, Waiting, "not in Kafka yet", "status --why"},
		"a row, the slot past it": {
			Report{Rows: []Row{row}, Complete: true, Slot: &Slot{Passed: true}, Kafka: one},
			Missing,
			"The row is committed, the relay is past it, and topic order.events does not have it.",
			"cdc-outbox replay --id e1",
		},
		"a row, its compacted topic has a newer record": {
			Report{
				Rows: []Row{row}, Complete: true, Slot: &Slot{Passed: true}, Kafka: one, Compacted: true,
				Newer: &Record{Topic: "order.events", Partition: 3, Offset: 9, EventID: "e2", Timestamp: at},
			},
			Superseded, "partition 3 has a record of event e2 with the key at offset 9", "",
		},
		"a row, its compacted topic has none of the key": {
			Report{Rows: []Row{row}, Complete: true, Slot: &Slot{Passed: true}, Kafka: one, Compacted: true},
			Missing, "topic order.events does not have it", "cdc-outbox repair",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.ID = "e1"
			k, err := reader.Open(wire.Cluster{Brokers: []string{"127.0.0.1:1"}})()
			require.NoError(t, err)
			c.r.names, c.r.replays = k.Names(), true
			c.r.judge()
			require.Equal(t, c.want, c.r.Verdict)
			require.Contains(t, c.r.Sentence, c.sentence)
			if c.command != "" {
				require.Contains(t, c.r.Remedy().String(), c.command)
			}
		})
	}
}

// TestQuoted: an id is a text that an application chose, and it is pasted into a shell.
func TestQuoted(t *testing.T) {
	for id, want := range map[string]string{
		"018f4d3c-0000-7000-8000-000000000001": "018f4d3c-0000-7000-8000-000000000001",
		"a b; rm":                              "'a b; rm'",
		"it's":                                 `'it'\''s'`,
	} {
		require.Equal(t, want, (&Report{ID: id}).quoted())
	}
}

// TestBorn reads the time in the example of RFC 9562, appendix A.6.
func TestBorn(t *testing.T) {
	require.Equal(t, int64(1645557742000), born("017F22E2-79B0-7CC3-98C4-DC0C0C07398F").UnixMilli())
	for _, id := range []string{
		"", "4711", "919108f7-52d1-4320-9bac-f847db4148a8", "zzzzzzzz-zzzz-7zzz-zzzz-zzzzzzzzzzzz",
	} {
		require.Zero(t, born(id), id)
	}
}
