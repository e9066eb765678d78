package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// result is one contender's pass over the WAL.
type result struct {
	Elapsed time.Duration // from the start, or where noted from the first record, to the last
	Client  watched
	Server  time.Duration // CPU of the walsender
}

// series are the results of one contender, one per round.
type series struct {
	name    string
	note    string // why there are no results
	results []result
}

func (s *series) median(of func(result) float64) float64 {
	v := make([]float64, len(s.results))
	for i, r := range s.results {
		v[i] = of(r)
	}
	slices.Sort(v)
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

func (s *series) minmax(of func(result) float64) (lo, hi float64) {
	for i, r := range s.results {
		v := of(r)
		if i == 0 || v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo, hi
}

// report prints the table, in Markdown.
func report(w io.Writer, rows int, all []*series) {
	perSecond := func(r result) float64 { return float64(rows) / r.Elapsed.Seconds() / 1000 }
	millions := float64(rows) / 1e6
	fmt.Fprintln(w, "| | rows/s, median (lowest–highest) | client CPU s/M | walsender CPU s/M | peak RSS |")
	fmt.Fprintln(w, "|---|---|---|---|---|")
	for _, s := range all {
		if len(s.results) == 0 {
			fmt.Fprintf(w, "| %s | %s | | | |\n", s.name, s.note)
			continue
		}
		lo, hi := s.minmax(perSecond)
		fmt.Fprintf(w, "| %s | %.1f k (%.1f–%.1f k) | %.2f | %.2f | %.0f MB |\n", s.name, s.median(perSecond), lo, hi,
			s.median(func(r result) float64 { return r.Client.CPU.Seconds() / millions }),
			s.median(func(r result) float64 { return r.Server.Seconds() / millions }),
			s.median(func(r result) float64 { return float64(r.Client.Peak) / 1e6 }))
	}
}
