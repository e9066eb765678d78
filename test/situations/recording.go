package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The labels that a scrape adds.
const (
	relayTarget    = `instance="connector:9464",job="cdc-outbox"`
	consumerTarget = `instance="billing:8080",job="billing"`
)

// scrape is what a target answered. A target that does not answer has the series up alone, and a target that discovery
// no longer lists has none.
type scrape struct {
	target, body    string
	answers, listed bool
}

// evidence is recorded besides: it shows that the situation was what its name says.
var evidence = []string{"cdc_outbox_events_published_total", "cdc_outbox_slot_growth_bytes_per_second"}

var metric = regexp.MustCompile(`\bcdc_outbox_[a-z0-9_]+`)

// metricsOf are the metrics that the rules ask for, and the evidence.
func metricsOf(rules string) (map[string]bool, error) {
	b, err := os.ReadFile(rules)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, m := range slices.Concat(metric.FindAllString(string(b), -1), evidence) {
		names[m] = true
	}
	return names, nil
}

// recording is the samples by series: a value, "stale" where a series ends, and "_" where there is none, as in the test
// files of Prometheus.
type recording struct {
	names  map[string]bool
	series map[string][]string
	ticks  int
	first  time.Time // the first scrape; timestamps among the values are judged by it
}

// add takes the scrapes of one moment, a target each.
func (r *recording) add(scrapes ...scrape) {
	seen := map[string]string{}
	for _, s := range scrapes {
		r.see(s, seen)
	}
	for series := range seen {
		if r.series[series] == nil {
			r.series[series] = slices.Repeat([]string{"_"}, r.ticks)
		}
	}
	for series, values := range r.series {
		value, ok := seen[series]
		if !ok {
			value = "_"
			if last := values[len(values)-1]; last != "_" && last != "stale" {
				value = "stale"
			}
		}
		r.series[series] = append(values, value)
	}
	if r.ticks++; r.first.IsZero() {
		r.first = time.Now()
	}
}

func (r *recording) see(s scrape, seen map[string]string) {
	up := "up{" + s.target + "}"
	if s.listed {
		seen[up] = "0"
	}
	if !s.answers {
		return
	}
	seen[up] = "1"
	for line := range strings.Lines(s.body) {
		if series, value, ok := r.sample(s.target, strings.TrimSpace(line)); ok {
			seen[series] = value
		}
	}
}

// sample reads a line of the text format, of a metric that is recorded.
func (r *recording) sample(target, line string) (series, value string, ok bool) {
	at := strings.LastIndexByte(line, ' ')
	if at < 0 || strings.HasPrefix(line, "#") {
		return "", "", false
	}
	name, labels, _ := strings.Cut(line[:at], "{")
	v, err := strconv.ParseFloat(line[at+1:], 64)
	if !r.names[name] || err != nil {
		return "", "", false
	}
	labels = strings.TrimSuffix(labels, "}")
	if labels != "" {
		labels = "," + labels
	}
	value = "Inf"
	if !math.IsInf(v, 1) {
		value = strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
	}
	return name + "{" + target + labels + "}", value, true
}

// String is a series a line, with equal values in a row written once: 0x39 is forty times 0.
func (r *recording) String() string {
	var b strings.Builder
	for _, series := range slices.Sorted(maps.Keys(r.series)) {
		b.WriteString(series)
		values := r.series[series]
		for len(values) > 0 {
			n := 1
			for n < len(values) && values[n] == values[0] {
				n++
			}
			switch {
			case values[0] == "_" && n > 1:
				fmt.Fprintf(&b, " _x%d", n)
			case values[0] == "Inf" || values[0] == "stale" || n == 1:
				b.WriteString(strings.Repeat(" "+values[0], n))
			default:
				fmt.Fprintf(&b, " %sx%d", values[0], n-1)
			}
			values = values[n:]
		}
		b.WriteByte('\n')
	}
	return b.String()
}
