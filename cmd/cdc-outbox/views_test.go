package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// viewBed is a relay with a broker of its own, on which a fault is made.
type viewBed struct {
	*bed
	broker *fakebroker.Broker
	port   int
	dir    string
	relay  *running
}

// TestEveryViewSaysTheSame: for each fault /readyz, /status (the page shows it), `status` in both forms, `check`, the
// firing alert and the log have one cause, one time, at which it was first noticed, and the same commands; and
// those commands, pasted, end the fault. test/e2e has the same with real Kafka, one fault after the other.
//
// Bug (monitor): of a slot that was lost or dropped, `/status` and its alert had the time of the last query, and other
// words and commands than the log, /readyz and `check`. Cost: "since 4 ms" for a slot lost long ago, and for a dropped
// slot no command at all.
//
// Bug (monitor): the remedy for a dropped slot was four commands in a row, SQL and shell, of which two were
// alternatives. Cost: a slot created by hand in place of one whose loss is on record.
//
// Bug (monitor): the log of a halt at a row that is too large began with "Or" and lacked the command that passes the
// row. Cost: half of a remedy.
//
// Bug (monitor): `check` took a broker that hangs for one that expects TLS or SASL while the connector knew that it had
// answered before, and offered `cdc-outbox run` beside a connector that runs. Cost: a search in the wrong place.
func TestEveryViewSaysTheSame(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	free := make(chan struct{}, 6) // each waits most of the time
	for _, f := range viewFaults() {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			t.Run(f.name, func(t *testing.T) { newViewBed(t, &f).play(&f) })
		})
	}
	all.Wait()
}

// play makes a fault, looks, and ends it.
func (v *viewBed) play(f *viewFault) {
	v.Helper()
	f.begin(v)
	seen := v.await(f)
	v.requireOneCause(f, seen)
	again := v.look()
	require.Equal(v, seen.page.Cause.Since, again.page.Cause.Since, "of the fact, not of the query")
	require.Equal(v, seen.page.Cause.Since, again.asked.Cause.Since)

	if f.end != nil {
		f.end(v)
	}
	require.Equal(v, f.end == nil, len(seen.page.Cause.Commands) > 0 && !f.byHand, "something ends it")
	for i, command := range seen.page.Cause.Commands {
		if f.only == 0 || f.only == i+1 {
			v.paste(command)
		}
	}
	v.relay.awaitReady(http.StatusOK)
}

func newViewBed(t *testing.T, f *viewFault) *viewBed {
	t.Helper()
	var db *testkit.Database
	if f.server != nil {
		db = testkit.DedicatedPostgres(t, *f.server)
	} else {
		db = testkit.Postgres(t)
	}
	_, port := deafAddress(t)
	v := &viewBed{bed: &bed{T: t, db: db, address: "127.0.0.1:" + port}, dir: t.TempDir()}
	v.port, _ = strconv.Atoi(port)
	v.up()
	t.Cleanup(func() { v.broker.Close() })
	for _, topic := range []string{"orders.events", "cdc-outbox.dead-letter"} {
		require.NoError(t, v.broker.Create(t.Context(), kafkaclient.Topic{Name: topic, Partitions: 1}))
	}
	v.env = append(variables(t, db), "CDC_OUTBOX_KAFKA_BROKERS="+v.address, "CDC_OUTBOX_MONITOR_INTERVAL=200ms",
		"CDC_OUTBOX_HTTP_STALL=1s", "CDC_OUTBOX_ON_FAULT=stay")
	res := invoke(t, v.env, "setup", "--table")
	require.Equal(t, 0, res.code, res.all())
	if f.before != nil {
		f.before(v)
	}
	v.relay = start(t, v.env)
	if f.before == nil {
		v.relay.awaitReady(http.StatusOK)
	}
	return v
}

// up starts the broker on what it has kept.
func (v *viewBed) up(more ...kfake.Opt) {
	v.Helper()
	broker, err := fakebroker.Start(fakebroker.Options{Ports: []int{v.port}, Dir: v.dir, More: more})
	require.NoError(v, err)
	v.broker = broker
}

// sights are all views of one moment.
type sights struct {
	ready       string
	page, asked service.Status // the answers of /status and of status --json
	text        string
	log         []logLine
}

// logLine is a line of the log. One about a gap is left out: that is a fact of its own.
type logLine struct {
	Msg, Object, Error, Reason, Cause string
	Commands                          []string
}

func (l *logLine) text() string {
	return strings.Join([]string{l.Msg, l.Object, l.Error, l.Reason, l.Cause}, " ")
}

func (v *viewBed) listen() string {
	return "--http-listen=" + strings.TrimPrefix(v.relay.url, "http://")
}

func (v *viewBed) look() (s sights) {
	v.Helper()
	_, s.ready = v.relay.get("/readyz")
	_, body := v.relay.get("/status")
	require.NoError(v, json.Unmarshal([]byte(body), &s.page))
	require.NoError(v, json.Unmarshal([]byte(invoke(v.T, v.env, "status", "--json", v.listen()).stdout), &s.asked))
	s.text = invoke(v.T, v.env, "status", v.listen()).stdout
	for line := range strings.Lines(v.relay.text()) {
		var l logLine
		if json.Unmarshal([]byte(line), &l) == nil && !strings.HasPrefix(l.Cause, "Gap ") {
			s.log = append(s.log, l)
		}
	}
	return s
}

// await looks until the relay is not ready because of the fault, and has said so. Readiness is sampled once a second,
// an alert is judged at the monitor's interval: the moment in which one of them is ahead is not the fault's.
func (v *viewBed) await(f *viewFault) (s sights) {
	v.Helper()
	settled := func() bool {
		alert := s.alert(f.alert)
		return strings.Contains(s.ready, f.says) && s.page.Cause.Code == f.code &&
			(f.alert == "" || alert != nil && alert.Cause.Sentence == s.page.Cause.Sentence)
	}
	require.Eventually(v, func() bool {
		_, body := v.relay.get("/status")
		s = sights{}
		_, s.ready = v.relay.get("/readyz")
		if json.Unmarshal([]byte(body), &s.page) != nil || !settled() ||
			!strings.Contains(v.relay.text(), strings.ReplaceAll(cmp.Or(f.logs, f.says), `"`, `\"`)) {
			return false
		}
		s = v.look()
		// On a busy machine the command may not wait long enough for the relay's answer.
		return settled() && s.asked.State.Name == s.page.State.Name
	}, 2*time.Minute, 50*time.Millisecond, f.name)
	return s
}

func (s *sights) alert(rule string) *service.FiringAlert {
	for i, a := range s.page.Alerts {
		if a.Rule == rule {
			return &s.page.Alerts[i]
		}
	}
	return nil
}

// requireOneCause holds all views to the cause that /status has.
func (v *viewBed) requireOneCause(f *viewFault, s sights) {
	v.Helper()
	cause := s.page.Cause
	require.Equal(v, f.code, cause.Code)
	require.Contains(v, cause.Sentence, f.says)
	require.Contains(v, s.ready, f.says)
	require.NotNil(v, cause.Since)
	asked := s.asked.Cause
	asked.Sentence = cause.Sentence // it may have an age in it
	require.Equal(v, cause, asked, "status --json")
	require.Contains(v, s.asked.Cause.Sentence, f.says)
	if s.page.ReplicationSlot != nil {
		require.Equal(v, cause.Code, s.page.ReplicationSlot.Cause.Code, "the slot's")
		require.Equal(v, cause.Commands, s.page.ReplicationSlot.Cause.Commands)
	}
	if next := s.page.State.Remedy(); !next.IsZero() {
		require.Equal(v, cause.Remedy(), next, "the state's")
		require.Equal(v, *cause.Since, s.page.State.Since)
	}
	for _, w := range s.page.Waits {
		if w.Kind == cause.Code {
			require.Equal(v, *cause.Since, w.Since)
			require.Subset(v, cause.Commands, w.Commands)
		}
	}
	if f.alert != "" {
		require.Equal(v, cause, s.alert(f.alert).Cause, "the alert's")
	}
	require.Contains(v, s.text, f.says)
	said := strings.Count(s.text, f.says) - len(s.page.Gaps)
	require.LessOrEqual(v, said, 2, "the verdict, and what it waits for:\n%s", s.text)
	require.Contains(v, s.text, "(since "+human.Time(*cause.Since)+")")
	for line := range strings.SplitSeq(strings.Join(cause.Commands, "\n"), "\n") {
		require.Contains(v, s.text, line)
	}
	v.requireLogged(f, &s)
	v.requireChecked(f, &s)
}

// requireLogged: the last line about it, or about its alert, has the commands, and none has others.
func (v *viewBed) requireLogged(f *viewFault, s *sights) {
	v.Helper()
	var last *logLine
	for i := range s.log {
		l := &s.log[i]
		if !strings.Contains(l.text(), cmp.Or(f.logs, f.says)) {
			continue
		}
		require.Subset(v, s.page.Cause.Commands, l.Commands, "the log's: %+v", l)
		if f.alert == "" || l.Msg == "alert fires" {
			last = l
		}
	}
	require.NotNil(v, last, "the log does not say it: %+v", s.log)
	require.ElementsMatch(v, s.page.Cause.Commands, last.Commands, "the log's: %+v", last)
}

// requireChecked: check beside the connector has its words, and no finding that run fails by has other commands. A gap,
// and the rows that are in the table, are facts of their own.
func (v *viewBed) requireChecked(f *viewFault, s *sights) {
	v.Helper()
	var told struct{ Findings []preflight.Finding }
	res := invoke(v.T, v.env, "check", "--json", v.listen())
	require.NoError(v, json.Unmarshal([]byte(res.stdout), &told), res.all())
	own := false
	for _, found := range told.Findings {
		if strings.HasPrefix(found.Subject, "connector ") {
			own = true
			require.Contains(v, found.Found, f.says)
			require.Equal(v, s.page.Cause.Next, found.Remedy)
			require.Equal(v, s.page.Cause.Commands, found.Commands)
		}
		if found.Level == preflight.Fail && !strings.HasPrefix(found.Found, "Gap ") &&
			!strings.Contains(found.Found, "sampled rows") {
			require.Subset(v, s.page.Cause.Commands, found.Commands, "%+v", found)
		}
	}
	require.True(v, own, "the connector is asked")
}

// paste runs a command as an operator would.
func (v *viewBed) paste(command string) {
	v.Helper()
	first, _, _ := strings.Cut(command, " ")
	switch first {
	case "kafka-topics.sh", "kafka-configs.sh":
		v.pasteKafka(command)
	case "cdc-outbox", "pg_isready":
		dir := v.TempDir()
		require.NoError(v, os.Symlink(binary, filepath.Join(dir, "cdc-outbox")))
		shell := exec.Command("sh", "-c", command)
		shell.Env = append(append(os.Environ(), v.env...), "PATH="+dir+":"+v.db.BinDir()+":"+os.Getenv("PATH"),
			"CDC_OUTBOX_HTTP_LISTEN="+strings.TrimPrefix(v.relay.url, "http://"))
		out, err := shell.CombinedOutput()
		require.NoError(v, err, "%s: %s", command, out)
	default:
		require.True(v, strings.HasSuffix(command, ";"), command)
		v.db.Exec(v, command)
	}
}

// pasteKafka does what Kafka's scripts would do.
func (v *viewBed) pasteKafka(command string) {
	v.Helper()
	words := strings.Fields(command)
	value := func(flag string) string {
		for i, w := range words {
			if w == flag {
				return words[i+1]
			}
		}
		return ""
	}
	require.Equal(v, v.address, value("--bootstrap-server"))
	if topic := value("--topic"); topic != "" {
		partitions, err := strconv.Atoi(value("--partitions"))
		require.NoError(v, err)
		require.NoError(v, v.broker.Create(v.Context(), kafkaclient.Topic{Name: topic, Partitions: int32(partitions)}))
		return
	}
	key, set, found := strings.Cut(value("--add-config"), "=")
	require.True(v, found, command)
	_, err := v.broker.Admin().AlterTopicConfigs(v.Context(), []kadm.AlterConfig{{Name: key, Value: &set}},
		value("--entity-name"))
	require.NoError(v, err)
}
