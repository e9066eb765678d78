package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

const letterTopic = "orders.events.DLT"

// consumerLetters writes letters as inbox/consumer does, of the groups a and b in turns.
func (r *badRig) consumerLetters(n int) {
	r.Helper()
	require.NoError(r, r.kafka.Create(r.Context(), kafkaclient.Topic{Name: letterTopic, Partitions: 2}))
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(r, err)
	defer client.Close()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{
			Topic: letterTopic, Partition: int32(i % 2), Key: []byte("k" + strconv.Itoa(i)),
			Value: [][]byte{nil, {}, {0xff, '\n'}, []byte(`{"n": "ü"}`)}[i%4],
			Headers: []kgo.RecordHeader{
				{Key: "dlt-reason", Value: []byte("no")},
				{Key: "dlt-class", Value: []byte("permanent")},
				{Key: "dlt-group", Value: []byte{"ab"[i%2]}},
				{Key: "dlt-origin-topic", Value: []byte("orders.events")},
				{Key: "dlt-origin-partition", Value: []byte(strconv.Itoa(i % 2))},
				{Key: "dlt-origin-offset", Value: []byte(strconv.Itoa(i))},
				{Key: "dlt-origin-timestamp", Value: []byte(strconv.FormatInt(time.Now().UnixMilli(), 10))},
				{Key: "id", Value: []byte("e" + strconv.Itoa(i))},
				{Key: "position", Value: []byte("p" + strconv.Itoa(i))},
			},
		})
	}
	require.NoError(r, client.ProduceSync(r.Context(), records...).FirstErr())
}

// expire deletes everything in the topic of the letters, as retention does.
func (r *badRig) expire() {
	r.Helper()
	ends, err := r.kafka.Admin().ListEndOffsets(r.Context(), letterTopic)
	require.NoError(r, err)
	answers, err := r.kafka.Admin().DeleteRecords(r.Context(), ends.Offsets())
	require.NoError(r, err)
	require.NoError(r, answers.Error())
}

func (r *badRig) deadLetter(args ...string) result {
	r.Helper()
	return invoke(r.T, r.env, append([]string{"dead-letter"}, args...)...)
}

// newLetterRig has letters of consumers, and a file of them. Only the file has them still.
func newLetterRig(t *testing.T, letters int) (r *badRig, file string) {
	t.Helper()
	r = newBadRig(t, "at_least_once")
	r.consumerLetters(letters)
	file = filepath.Join(t.TempDir(), "letters.jsonl")
	res := r.deadLetter("export", "--in="+letterTopic, "--to="+file)
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.stdout, fmt.Sprintf("%d dead letters written", letters))
	r.expire()
	require.Empty(t, r.list("--in="+letterTopic))
	require.Len(t, r.list("--file="+file), letters)
	return r, file
}

// Letters that the topic has deleted are retried from a file: with the filters, to the partitions where their records
// were, once. The file remembers that when the topic has deleted the marks as well.
func TestLettersOutliveTheirTopic(t *testing.T) {
	t.Parallel()
	const letters = 10
	r, file := newLetterRig(t, letters)
	retry := func(args ...string) result {
		return r.deadLetter(append([]string{"retry", "--file=" + file}, args...)...)
	}
	require.Equal(t, 2, retry("--all", "--in=cdc-outbox.dead-letter").code, "another topic's letters")
	require.Equal(t, 2, retry("--all", "--topic="+letterTopic).code)
	res := retry("--group=a", "--dry-run")
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.stdout, "5 of 5 dead letters would be published")
	require.Empty(t, r.ids("orders.events"))

	res = retry("--group=a")
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.stdout, "5 of 5 dead letters published")
	r.expire()
	res = retry("--all")
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.stdout, "5 of 5 dead letters published", "group b: the file knows the others")
	require.Contains(t, retry("--all").stdout, "0 of 0")
	r.expire()
	require.Contains(t, retry("--all").stdout, "0 of 0")
	res = retry("e1")
	require.Equal(t, 3, res.code, res.all())
	require.Contains(t, res.stdout, "--again publishes it once more")

	got := r.read("orders.events")
	require.Len(t, got, letters)
	for _, rec := range got {
		i, err := strconv.Atoi(strings.TrimPrefix(headerOf(rec, "id"), "e"))
		require.NoError(t, err)
		require.EqualValues(t, i%2, rec.Partition)
		require.Equal(t, "k"+strconv.Itoa(i), string(rec.Key))
		require.Equal(t, [][]byte{nil, {}, {0xff, '\n'}, []byte(`{"n": "ü"}`)}[i%4], rec.Value)
		require.NotEmpty(t, headerOf(rec, "retried"))
		require.Empty(t, headerOf(rec, "dlt-reason"))
	}
	require.Contains(t, r.deadLetter("show", "e3", "--payload", "--file="+file).stdout, `value: {"n": "ü"}`)
}

// A consumer's letter that is retried with another key goes where the relay writes the events of that key.
//
// Bug (letters): A consumer's letter that was retried with another `--key` went to the partition of its former key.
// Cost: events of one key in two partitions, in any order.
func TestRetryWithAnotherKeyFindsItsPartition(t *testing.T) {
	r := newBadRig(t, "at_least_once")
	r.consumerLetters(2) // of records in two partitions
	res := r.deadLetter("retry", "--in="+letterTopic, "--all", "--key=k")
	require.Equal(t, 0, res.code, res.all())
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...))
	require.NoError(t, err)
	defer client.Close()
	relayed := &kgo.Record{Topic: "orders.events", Key: []byte("k")}
	require.NoError(t, client.ProduceSync(t.Context(), relayed).FirstErr())
	got := r.read("orders.events")
	require.Len(t, got, 3)
	for _, rec := range got {
		require.Equal(t, relayed.Partition, rec.Partition)
	}
}

// The marks in the topic count for a file, the marks in a file for its letters alone, and an export takes marks along.
func TestExportTakesTheMarks(t *testing.T) {
	t.Parallel()
	r := newBadRig(t, "at_least_once")
	r.consumerLetters(6)
	in := "--in=" + letterTopic
	require.Equal(t, 0, r.deadLetter("retry", in, "e0").code)
	res := r.deadLetter("export", in, "--to=-")
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.stderr, "6 dead letters written, with 2 further copies or marks")
	for _, line := range strings.Split(strings.TrimSpace(res.stdout), "\n") {
		require.True(t, json.Valid([]byte(line)), line)
	}
	dir := t.TempDir()
	all, open := filepath.Join(dir, "all"), filepath.Join(dir, "open")
	require.NoError(t, os.WriteFile(all, []byte(res.stdout), 0o600))
	require.Equal(t, 0, r.deadLetter("export", in, "--open", "--to="+open).code)
	require.Equal(t, 2, r.deadLetter("export", in, "--to="+open).code, "nothing is overwritten")
	require.Equal(t, 2, r.deadLetter("export", in).code)
	require.Len(t, r.list("--file="+open), 5)

	require.Equal(t, 0, r.deadLetter("dismiss", "--file="+open, "e1").code)
	require.Equal(t, 0, r.deadLetter("retry", in, "e2").code)
	require.Len(t, r.list("--open", "--file="+all), 3, "the topic has the marks of e0, e1 and e2")
	r.expire()
	require.Len(t, r.list("--open", "--file="+all), 5, "only that of e0 is in the file")
	require.Len(t, r.list("--open", "--file="+open), 4, "only that of e1 is in the file")

	cut, err := os.ReadFile(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(all, cut[:bytes.LastIndexByte(cut[:len(cut)-1], '\n')], 0o600))
	res = r.deadLetter("retry", "--file="+all, "--all")
	require.Equal(t, 3, res.code, res.all())
	require.Contains(t, res.stderr, "a part is missing")
}

// A retry from a file that is killed, while the topic deletes its marks, publishes no letter twice unasked.
func TestAKilledRetryFromAFile(t *testing.T) {
	t.Parallel()
	const letters = 250
	r, file := newLetterRig(t, letters)
	retried := func() map[string]int { return r.retried("orders.events") }
	for i := range 8 {
		cmd := command(t.Context(), r.env, "dead-letter", "retry", "--all", "--file="+file)
		require.NoError(t, cmd.Start())
		_ = killAfter(cmd, time.Duration(20+25*i)*time.Millisecond)
		_ = cmd.Wait()
		r.expire()
		count := retried()
		for _, e := range r.list("--file=" + file) {
			n := count["p"+strings.TrimPrefix(e.ID, "e")]
			require.LessOrEqual(t, n, 1, "%s is there twice", e.ID)
			require.False(t, e.State == deadletter.Open && n > 0, "%s is open and published", e.ID)
			require.False(t, e.State == deadletter.Retried && n == 0, "%s is not published", e.ID)
		}
	}
	count, args := retried(), []string{"retry", "--again", "--file=" + file}
	for _, e := range r.list("--open", "--file="+file) {
		if count["p"+strings.TrimPrefix(e.ID, "e")] == 0 {
			args = append(args, e.Position)
		}
	}
	if len(args) > 3 {
		require.Equal(t, 0, r.deadLetter(args...).code)
	}
	require.Len(t, retried(), letters)
}

// list warns when the topic is about to delete open letters, and the command that it names ends the warning.
func TestListWarnsOfRetention(t *testing.T) {
	r := newBadRig(t, "at_least_once")
	r.consumerLetters(2)
	in := "--in=" + letterTopic
	require.Empty(t, r.deadLetter("list", in).stderr)
	set := func(value string) {
		_, err := r.kafka.Admin().AlterTopicConfigs(t.Context(),
			[]kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, letterTopic)
		require.NoError(t, err)
	}
	set("1")
	res := r.deadLetter("list", in, "--json")
	require.Equal(t, 0, res.code, res.all())
	require.True(t, json.Valid([]byte(res.stdout)))
	require.Contains(t, res.stderr, "Kafka may delete them at any time")
	require.Contains(t, res.stderr, "--alter --entity-type topics --entity-name "+letterTopic+
		" --add-config retention.ms=-1")
	require.Contains(t, res.stderr, "cdc-outbox dead-letter export "+strings.Replace(in, "=", " ", 1)+
		" --open --to "+letterTopic+".jsonl")
	set("-1")
	require.Empty(t, r.deadLetter("list", in).stderr)
}
