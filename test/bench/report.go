package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// result is one contender's pass over the log.
type result struct {
	Began, Taken, End time.Time // of the process; the slot in use, or where noted the first record; the last record
	Client            watched
	Server            time.Duration // CPU of the walsender
	Wire              int64         // bytes of Kafka's log
}

// figures are a pass in the units of the report. Each is also a unit of the output for benchstat.
type figures struct {
	Rate       float64 // rows/s
	Client     float64 // CPU seconds per million rows
	Walsender  float64 // the same
	Peak       float64 // MB
	Start      float64 // seconds
	BytesOnLog float64 // per row
}

func (r result) figures(rows int) figures {
	millions := float64(rows) / 1e6
	return figures{
		Rate:       float64(rows) / r.End.Sub(r.Taken).Seconds(),
		Client:     r.Client.CPU.Seconds() / millions,
		Walsender:  r.Server.Seconds() / millions,
		Peak:       float64(r.Client.Peak) / 1e6,
		Start:      r.Taken.Sub(r.Began).Seconds(),
		BytesOnLog: float64(r.Wire) / float64(rows),
	}
}

// series are the passes of one contender over one load, one per round.
type series struct {
	load, key string
	name      string
	note      string // why there are no passes
	rows      int
	passes    []figures
}

func rate(f figures) float64      { return f.Rate }
func client(f figures) float64    { return f.Client }
func walsender(f figures) float64 { return f.Walsender }
func peak(f figures) float64      { return f.Peak }

func (s *series) median(of func(figures) float64) float64 {
	var v []float64
	if s != nil {
		for _, p := range s.passes {
			v = append(v, of(p))
		}
	}
	return median(v)
}

func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return v[n/2]
	default:
		return (v[n/2-1] + v[n/2]) / 2
	}
}

// beside is the median of the ratios of each round to the same round of another contender: the speed of a shared
// machine drifts, and the passes of one round are close in time.
func (s *series) beside(other *series, of func(figures) float64) float64 {
	return median(s.ratios(other, of))
}

func (s *series) ratios(other *series, of func(figures) float64) []float64 {
	if s == nil || other == nil {
		return nil
	}
	var v []float64
	for i := range min(len(s.passes), len(other.passes)) {
		if base := of(other.passes[i]); base > 0 {
			v = append(v, of(s.passes[i])/base)
		}
	}
	return v
}

func (s *series) minmax(of func(figures) float64) (lo, hi float64) {
	byFigure := func(a, b figures) int { return cmp.Compare(of(a), of(b)) }
	return of(slices.MinFunc(s.passes, byFigure)), of(slices.MaxFunc(s.passes, byFigure))
}

func find(all []*series, load, key string) *series {
	for _, s := range all {
		if s.load == load && s.key == key && len(s.passes) > 0 {
			return s
		}
	}
	return nil
}

// loads are the keys of the loads, in order.
func loads(all []*series) []string {
	var keys []string
	for _, s := range all {
		if !slices.Contains(keys, s.load) {
			keys = append(keys, s.load)
		}
	}
	return keys
}

const throughputHeader = "| | rows/s, median (lowest–highest) | beside the napping reader | " +
	"beside `pg_recvlogical` | client CPU s/M | walsender CPU s/M | " +
	"walsender CPU beside the napping reader's | peak RSS |\n" +
	"|---|---|---|---|---|---|---|---|\n"

// reportThroughput prints the table of one load, in Markdown.
func reportThroughput(w io.Writer, all []*series, load string) {
	fmt.Fprint(w, throughputHeader)
	reader, peer := find(all, load, napping), find(all, load, recvlogical)
	for _, s := range all {
		switch {
		case s.load != load:
		case len(s.passes) == 0:
			fmt.Fprintf(w, "| %s | %s | | | | | | |\n", s.name, s.note)
		default:
			fmt.Fprintf(w, "| %s | %s | %s | %s | %.2f | %.2f | %s | %.0f MB |\n", s.title(all), s.spread(),
				times(s.beside(reader, rate)), times(s.beside(peer, rate)), s.median(client), s.median(walsender),
				times(s.beside(reader, walsender)), s.median(peak))
		}
	}
}

// title says so where a contender had fewer rounds than the others of its load.
func (s *series) title(all []*series) string {
	most := 0
	for _, other := range all {
		if other.load == s.load {
			most = max(most, len(other.passes))
		}
	}
	if n := len(s.passes); n < most {
		return fmt.Sprintf("%s (rounds: %d)", s.name, n)
	}
	return s.name
}

func (s *series) spread() string {
	lo, hi := s.minmax(rate)
	return fmt.Sprintf("%s (%s–%s k)", thousands(s.median(rate)), strings.TrimSuffix(thousands(lo), " k"),
		strings.TrimSuffix(thousands(hi), " k"))
}

func thousands(v float64) string { return fmt.Sprintf("%.1f k", v/1000) }

// times prints a ratio; there is none without the other side.
func times(ratio float64) string {
	if math.IsNaN(ratio) {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}
