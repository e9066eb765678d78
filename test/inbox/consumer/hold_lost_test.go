package consumer_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// The dead-letter topic loses letters before the process that has written them has read them again. The partition does
// not look for them for ever, nor without a pause, and the event that waits is read where its record was.
//
// Bug (letters): A consumer searched for a deleted letter without a pause or an end. Cost: the partition stopped and
// kept the broker busy.
func TestHeldLettersThatAreGone(t *testing.T) {
	t.Parallel()
	r := newHoldRig(t, 1)
	r.refuse("a1")
	inside, release := make(chan struct{}), make(chan struct{})
	start(t, r.opts, func(ctx context.Context, m consumer.Message) error {
		if m.ID == "b1" {
			close(inside)
			<-release
		}
		return r.handle(ctx, []consumer.Message{m})
	})
	r.produce(t, record("a", "a1"), record("a", "a2"), record("b", "b1"))
	<-inside
	asked := r.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic + ".DLT", Count: -1, Observe: true})
	_, err := r.Admin().DeleteRecords(t.Context(), kadm.Offsets{
		topic + ".DLT": {0: {Topic: topic + ".DLT", Partition: 0, At: 2, LeaderEpoch: -1}},
	})
	require.NoError(t, err)
	r.refuse()
	r.produce(t, record("a", "a1"), record("b", "b2"))
	began := time.Now()
	close(release)
	r.passed(5)
	r.awaitEffects("b1", "a1", "a2", "b2")
	seconds := int(time.Since(began)/time.Second) + 1
	require.Less(t, asked.Hits(), 10*seconds, "it asks a few times in a second")
	require.EqualValues(t, 0, value(t, r.registry, "cdc_outbox_consumer_held_keys"))
}

// The service takes an event's id from another header than the commands do. What the consumer says of a letter is about
// the letter that they list all the same.
//
// Bug (letters): A handled letter was marked by the id of `Options.ID`, not the listed one. Cost: it stayed open.
func TestHeldLettersWithIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := newHoldRig(t, 1)
	r.opts.ID = consumer.HeaderID("event")
	send := func(row string) {
		event := record("a", row)
		event.Headers = append(event.Headers, kgo.RecordHeader{Key: "event", Value: []byte("event of " + row)})
		r.produce(t, event)
		r.passed(1)
	}
	r.refuse("event of a1")
	stop := startBatch(t, r.opts, r.handle)
	send("a1")
	send("a2")
	require.Equal(t, []string{"a1 permanent", "a2 waiting"}, r.open())
	r.dismiss("a1")
	r.awaitEffects("event of a2")
	require.Eventually(t, func() bool { return len(r.open()) == 0 }, time.Minute, 50*time.Millisecond)
	require.NoError(t, stop())
	r.rewind()
	r.refuse()
	startBatch(t, r.opts, r.handle)
	r.passed(2)
	require.Equal(t, []string{"event of a2"}, r.effects(), "a1 was dismissed")
}

// The topic of the events was created again, with other events at the old offsets. None of them is taken for the event
// of a letter that was cut, nor for one whose letter was dismissed.
//
// Bug (letters): A waiting letter that was cut was read from a topic that had been created again. Cost: another event
// was handled under its id.
func TestHeldLettersOfATopicThatWasReplaced(t *testing.T) {
	t.Parallel()
	r := newHoldRig(t, 1)
	r.refuse("a1")
	r.limitLetters(t, "2000")
	stop := startBatch(t, r.opts, r.handle)
	r.send("a", "a1")
	large := record("a", "a2")
	large.Value = make([]byte, 5000)
	r.produce(t, large)
	r.passed(1)
	require.NoError(t, stop())
	r.dismiss("a1")
	_, err := r.Admin().DeleteTopics(t.Context(), topic)
	require.NoError(t, err)
	_, err = r.Admin().CreateTopics(t.Context(), 1, 1, nil, topic)
	require.NoError(t, err)
	producer, err := kgo.NewClient(kgo.SeedBrokers(r.Addrs()...))
	require.NoError(t, err)
	defer producer.Close()
	require.NoError(t, producer.ProduceSync(t.Context(), record("a", "b1"), record("a", "b2")).FirstErr())
	require.EqualValues(t, 0, r.committed(t), "the group's offsets go with the topic")
	r.produced = 0
	startBatch(t, r.opts, r.handle)
	r.passed(2)
	r.awaitEffects("b1", "b2")
}

// A later version of the service takes ids from another header. A waiting letter that was cut is still read from its
// record, and handled under the id that it waited with.
//
// Bug (letters): A waiting letter that was cut counted as absent after the service had changed `Options.ID`. Cost: its
// event was never handled, and later events of its key were.
func TestHeldLettersAfterAChangeOfIDs(t *testing.T) {
	t.Parallel()
	r := newHoldRig(t, 1)
	r.refuse("a1")
	r.limitLetters(t, "2000")
	stop := startBatch(t, r.opts, r.handle)
	r.send("a", "a1")
	large := record("a", "a2")
	large.Value = make([]byte, 5000)
	large.Headers = append(large.Headers, kgo.RecordHeader{Key: "event", Value: []byte("event of a2")})
	r.produce(t, large)
	r.passed(1)
	require.NoError(t, stop())
	r.dismiss("a1")
	r.opts.ID = consumer.HeaderID("event")
	startBatch(t, r.opts, r.handle)
	r.awaitEffects("a2")
}

// An operator deletes the dead-letter topic and creates it again while a key is held. Its letters no longer exist, and
// the log says so. The events that waited are handled from their own records; what is written from then on holds its
// keys, and can be dismissed, without a restart.
//
// Bug (letters): A dead-letter topic that was created again was read on from the old offset. Cost: keys stayed held
// until a restart.
func TestHeldLettersOfALetterTopicThatWasReplaced(t *testing.T) {
	t.Parallel()
	r := newHoldRig(t, 1)
	r.refuse("a1", "b1")
	var log logBuffer
	r.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	startBatch(t, r.opts, r.handle)
	r.send("a", "a1", "a2", "a3", "a4", "a5", "a6")
	require.Eventually(t, func() bool { return value(t, r.registry, "cdc_outbox_inbox_open_dead_letters") == 6 },
		30*time.Second, 10*time.Millisecond)
	asked := r.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic + ".DLT", Count: -1, Observe: true})
	require.Eventually(t, func() bool { return asked.Hits() > 1 }, time.Minute, 10*time.Millisecond,
		"the letters are read again every two seconds; the second time begins after the first")
	_, err := r.Admin().DeleteTopics(t.Context(), topic+".DLT")
	require.NoError(t, err)
	_, err = r.Admin().CreateTopics(t.Context(), 1, 1, nil, topic+".DLT")
	require.NoError(t, err)
	r.send("b", "b1", "b2")
	r.dismiss("b1")
	require.Eventually(t, func() bool { return len(r.effects()) >= 6 }, time.Minute, 10*time.Millisecond)
	r.send("a", "a7")
	require.Eventually(t, func() bool { return len(r.effects()) >= 7 }, time.Minute, 10*time.Millisecond)
	ofA := slices.DeleteFunc(r.effects(), func(id string) bool { return id == "b2" })
	require.Equal(t, []string{"a2", "a3", "a4", "a5", "a6", "a7"}, ofA, "the events that waited are in their own topic")
	require.Contains(t, log.String(), "was created again")
	require.Eventually(t, func() bool { return value(t, r.registry, "cdc_outbox_inbox_open_dead_letters") == 0 },
		time.Minute, 10*time.Millisecond)
}
