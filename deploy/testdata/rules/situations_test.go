package rules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// earlier is the moment at which a recording begins when it is replayed. The language counts from 1970 on, and a
// recording has timestamps from before its beginning.
const earlier = 2 * time.Hour

// scraped is the time between two scrapes of situations/.
const scraped = 10 * time.Second

// firing is when a rule has to fire at the latest, and whether it has ended with the recording.
type firing struct {
	by   time.Duration
	over bool
}

// fires says which alerts a situation raises: rule, severity, and of CDCOutboxAlert the name of the process's own
// alert. No other rule may fire at any time. The fault begins after one minute.
var fires = map[string]map[string]firing{
	"healthy-busy":             {},
	"healthy-beside-other-wal": {},
	"broker-down":              {"CDCOutboxStalled warning": {by: 3 * time.Minute}},
	"topic-missing":            {"CDCOutboxStalled warning": {by: 3 * time.Minute}},
	"row-halted": {
		"CDCOutboxAlert critical row_halted": {by: 70 * time.Second},
		"CDCOutboxStalled warning":           {by: 3 * time.Minute},
	},
	// The process's own alert says it, so CDCOutboxEventsFailed does not.
	"row-skipped": {"CDCOutboxAlert warning dead_letters": {by: 70 * time.Second}},
	"webhook-away": {
		"CDCOutboxAlert warning dead_letters": {by: 70 * time.Second},
		"CDCOutboxWebhook warning":            {by: 6 * time.Minute},
	},
	"postgres-away": {
		"CDCOutboxAlert critical stream_silent": {by: 2 * time.Minute},
		"CDCOutboxMonitorBlind warning":         {by: 390 * time.Second},
	},
	"connection-breaks": {"CDCOutboxReconnecting warning": {by: 2 * time.Minute}},
	"target-down":       {"CDCOutboxDown critical": {by: 2 * time.Minute}},
	"target-vanished":   {"CDCOutboxAbsent critical": {by: 6 * time.Minute}},
	"crash-loop":        {"CDCOutboxDown critical": {by: 2 * time.Minute}},
	"collector-away":    {"CDCOutboxTracesLost info": {by: 16 * time.Minute}},
	"consumer-healthy":  {},
	"consumer-hangs":    {"CDCOutboxConsumerStuck critical": {by: 8 * time.Minute}},
	"consumer-stopped":  {"CDCOutboxConsumerGone critical": {by: 7 * time.Minute}},
	"consumer-behind":   {"CDCOutboxConsumerBehind warning": {by: 16 * time.Minute}},
	"consumer-repeats":  {"CDCOutboxInboxDuplicates warning": {by: 16 * time.Minute}},
	"consumer-letters": {
		"CDCOutboxInboxDeadLetters critical": {by: 80 * time.Second},
		"CDCOutboxInboxLettersOpen warning":  {by: 400 * time.Second},
	},
	// Each attempt fails, so each event becomes a dead letter when its budget, a minute, is used up.
	"consumer-fails": {
		"CDCOutboxInboxFailing critical":     {by: 1000 * time.Second},
		"CDCOutboxInboxDeadLetters critical": {by: 150 * time.Second},
		"CDCOutboxInboxLettersOpen warning":  {by: 8 * time.Minute},
	},
	"slot-unread": {"CDCOutboxSlotUnread warning": {by: 310 * time.Second}},
	// The process's own alerts follow the server's wal_status, which changes at checkpoints.
	"slot-lost": {
		"CDCOutboxSlotRunsOut warning":            {by: 80 * time.Second, over: true},
		"CDCOutboxSlotRunsOut critical":           {by: 80 * time.Second, over: true},
		"CDCOutboxAlert warning slot_extended":    {by: 2 * time.Minute, over: true},
		"CDCOutboxAlert critical slot_unreserved": {by: 150 * time.Second, over: true},
		"CDCOutboxSlotLost critical":              {by: 3 * time.Minute},
	},
}

// synthetic are the rules that no recorded situation raises; TestFiring has series for them. Before
// CDCOutboxEventsFailed, the process reports its own alerts; two instances would have to handle one event for minutes,
// a ledger would have to be unpruned for days, and the audit's figures come from a file.
var synthetic = regexp.MustCompile(`^CDCOutbox(EventsFailed|InboxContended|InboxUnpruned|Audit(Found|Late|Old))$`)

var (
	severity = regexp.MustCompile(`\bseverity="(\w+)"`)
	own      = regexp.MustCompile(`\balert="(\w+)"`)
	values   = regexp.MustCompile(`^(\S+)x(\d+)$`)
	first    = regexp.MustCompile(`, from (\d+\.\d+) on, Unix time`)
)

// TestSituations replays what Prometheus saw of real situations, healthy ones and faults (situations/, made by
// `make situations`), and holds each rule to when it fires and when it does not.
func TestSituations(t *testing.T) {
	rules := []string{filepath.Join(deploy, "prometheus", "rules.yml")}
	files, err := filepath.Glob("situations/*.series")
	if err != nil {
		t.Fatal(err)
	}
	recorded, raised := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".series")
		recorded[name] = true
		t.Run(name, func(t *testing.T) {
			want, ok := fires[name]
			if !ok {
				t.Error("nothing is stated about this situation")
			}
			compare(t, want, replay(t, f, rules))
		})
	}
	for name, stated := range fires {
		if !recorded[name] {
			t.Errorf("%s is not recorded", name)
		}
		for key := range stated {
			raised[strings.Fields(key)[0]] = true
		}
	}
	for _, rule := range alertNames(t, rules) {
		if raised[rule] == synthetic.MatchString(rule) {
			t.Errorf("%s is raised by a situation: %v", rule, raised[rule])
		}
	}
}

func compare(t *testing.T, want, got map[string]firing) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(got)) {
		stated, ok := want[key]
		if !ok || got[key].by > stated.by || got[key].over != stated.over {
			t.Errorf("%s: %+v; stated: %v, %+v", key, got[key], ok, stated)
		}
	}
	for key := range want {
		if _, ok := got[key]; !ok {
			t.Errorf("%s does not fire", key)
		}
	}
}

// replay returns what fires, by when, and whether it is over at the end of the recording.
func replay(t *testing.T, file string, rules []string) map[string]firing {
	t.Helper()
	load, ticks := recording(t, file)
	var times []time.Duration
	for i := range ticks {
		times = append(times, earlier+time.Duration(i)*scraped)
	}
	seen := evaluate(t, load, rules, scraped, earlier, times, alertNames(t, rules))
	got := map[string]firing{}
	for _, at := range times {
		for key, f := range got {
			got[key] = firing{f.by, true}
		}
		for rule, list := range seen[at] {
			for _, text := range list {
				key := rule + " " + severity.FindStringSubmatch(text)[1]
				if m := own.FindStringSubmatch(text); m != nil {
					key += " " + m[1]
				}
				f, before := got[key]
				if !before {
					f.by = at - earlier
				}
				got[key] = firing{f.by, false}
			}
		}
	}
	return got
}

// recording returns a file as a statement of Prometheus's test language, and how many scrapes it holds.
func recording(t *testing.T, path string) (load string, ticks int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	began := 0.0 // not known: the recording has no timestamps
	if m := first.FindSubmatch(b); m != nil {
		if began, err = strconv.ParseFloat(string(m[1]), 64); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintf(&out, "load %s\n", scraped)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, "} ")
		fmt.Fprintf(&out, "  %s} _x%d", name, earlier/scraped)
		n, moments := 0, strings.Contains(name, "_timestamp_seconds{")
		if moments && began == 0 {
			t.Fatalf("%s: %s, and when it was recorded is not stated", path, name)
		}
		for _, v := range strings.Fields(rest) {
			if moments {
				v = moved(t, v, earlier.Seconds()-began)
			}
			out.WriteString(" " + v)
			n++
			if m := values.FindStringSubmatch(v); m != nil {
				var more int
				if _, err := fmt.Sscan(m[2], &more); err != nil {
					t.Fatal(err)
				}
				n += more
				if m[1] == "_" {
					n-- // _x3 is three times nothing, 1x3 is four times 1
				}
			}
		}
		out.WriteByte('\n')
		ticks = max(ticks, n)
	}
	return out.String(), ticks
}

// moved adds seconds to a moment. 0 is none.
func moved(t *testing.T, value string, by float64) string {
	t.Helper()
	number, times, repeated := strings.Cut(value, "x")
	if number == "0" || number == "_" || number == "stale" || number == "" { // _x3 as well
		return value
	}
	at, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatal(err)
	}
	number = strconv.FormatFloat(at+by, 'f', 3, 64)
	if repeated {
		number += "x" + times
	}
	return number
}
