package main

import (
	"fmt"
	"io"
	"math"
)

// goal is a bound that the medians of a run are held against.
type goal struct {
	name    string
	atLeast bool
	bound   float64
	of      func(all []*series) float64 // NaN where the run has no figure
}

// The loads of the main table.
const (
	tenPerTx = "10-per-tx"
	onePerTx = "1-per-tx"
)

// goals name what the connector is to reach on any machine: ratios to what its walsender gives to a client that throws
// the rows away, and CPU and memory, which depend on the machine less than rates do.
var goals = []goal{
	{"rows/s beside the napping reader that discards", true, 0.95, ratioOf(tenPerTx, atLeastOnce, napping, rate)},
	{"rows/s beside `pg_recvlogical`", true, 1.5, ratioOf(tenPerTx, atLeastOnce, recvlogical, rate)},
	{"client CPU, s per million rows", false, 1.3, medianOf(tenPerTx, atLeastOnce, client)},
	{"walsender CPU beside the napping reader's", false, 1.1, ratioOf(tenPerTx, atLeastOnce, napping, walsender)},
	{"peak RSS at_least_once, MB", false, 44, medianOf(tenPerTx, atLeastOnce, peak)},
	{"peak RSS exactly_once, MB", false, 48, medianOf(tenPerTx, exactlyOnce, peak)},
	{"rows/s of exactly_once beside at_least_once", true, 0.97, ratioOf(tenPerTx, exactlyOnce, atLeastOnce, rate)},
	{"rows/s with 1 row per transaction, beside the reader", true, 0.95, ratioOf(onePerTx, atLeastOnce, napping, rate)},
}

func ratioOf(load, key, other string, of func(figures) float64) func([]*series) float64 {
	return func(all []*series) float64 { return find(all, load, key).beside(find(all, load, other), of) }
}

func medianOf(load, key string, of func(figures) float64) func([]*series) float64 {
	return func(all []*series) float64 { return find(all, load, key).median(of) }
}

func (g *goal) met(measured float64) bool {
	if g.atLeast {
		return measured >= g.bound
	}
	return measured <= g.bound
}

const goalsHeader = "| | goal | measured | met |\n|---|---|---|---|\n"

func reportGoals(w io.Writer, all []*series) {
	fmt.Fprint(w, goalsHeader)
	for _, g := range goals {
		sign := "≤"
		if g.atLeast {
			sign = "≥"
		}
		measured, met := "", ""
		if v := g.of(all); !math.IsNaN(v) {
			measured, met = fmt.Sprintf("%.2f", v), "no"
			if g.met(v) {
				met = "yes"
			}
		}
		fmt.Fprintf(w, "| %s | %s %g | %s | %s |\n", g.name, sign, g.bound, measured, met)
	}
}
