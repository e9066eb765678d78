package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFigures(t *testing.T) {
	began := time.Now()
	r := result{
		Began: began, Taken: began.Add(time.Second), End: began.Add(5 * time.Second),
		Client: watched{CPU: time.Second, Peak: 40e6}, Server: 2 * time.Second, Wire: 5e8,
	}
	require.Equal(t, figures{Rate: 500_000, Client: .5, Walsender: 1, Peak: 40, Start: 1, BytesOnLog: 250},
		r.figures(2_000_000))
}

// passes have one rate each; their other figures are the same.
func passes(load, key string, rates ...float64) *series {
	s := &series{load: load, key: key, name: contenderName(key), rows: 1_000_000}
	for _, r := range rates {
		s.passes = append(s.passes, figures{Rate: r, Client: 1.2, Walsender: 3, Peak: 40, Start: .25})
	}
	return s
}

func TestBesideComparesWithinRounds(t *testing.T) {
	// The machine slows to half in round 2: the medians alone would say 150/200.
	reader := passes(tenPerTx, napping, 200e3, 100e3, 200e3)
	ours := passes(tenPerTx, atLeastOnce, 190e3, 95e3, 150e3)
	require.InDelta(t, .95, ours.beside(reader, rate), 1e-9)
	require.True(t, math.IsNaN(ours.beside(nil, rate)))
	require.True(t, math.IsNaN((*series)(nil).beside(reader, rate)))
}

// Bug (polling): The benchmark of polling printed the larger of two passes as their median. Cost: a wrong figure.
func TestMedianOfTwoPassesLiesBetweenThem(t *testing.T) {
	require.Equal(t, 7.0, median([]float64{7}))
	require.Equal(t, 6.0, median([]float64{8, 4}))
	require.Equal(t, 4.0, median([]float64{8, 4, 1}))
}

func TestReportThroughput(t *testing.T) {
	var b strings.Builder
	reportThroughput(&b, []*series{
		passes(tenPerTx, napping, 200e3, 200e3, 200e3), passes(tenPerTx, recvlogical, 100e3, 100e3, 100e3),
		passes(tenPerTx, atLeastOnce, 100e3, 200e3, 50e3),
		passes(tenPerTx, debeziumKey, 20e3),
		{load: tenPerTx, name: "theirs", note: "not installed"},
		passes(onePerTx, atLeastOnce, 1),
	}, tenPerTx)
	require.Contains(t, b.String(),
		"| cdc-outbox to Kafka | 100.0 k (50.0–200.0 k) | 0.50 | 1.00 | 1.20 | 3.00 | 1.00 | 40 MB |\n")
	require.Contains(t, b.String(), "| Debezium, default settings, to Kafka (rounds: 1) | 20.0 k", "fewer rounds")
	require.True(t, strings.HasSuffix(b.String(), "| theirs | not installed | | | | | | |\n"), b.String())
}

func TestReportGoals(t *testing.T) {
	var b strings.Builder
	reportGoals(&b, []*series{
		passes(tenPerTx, napping, 200e3), passes(tenPerTx, recvlogical, 100e3), passes(tenPerTx, atLeastOnce, 140e3),
	})
	require.Contains(t, b.String(), "| rows/s beside the napping reader that discards | ≥ 0.95 | 0.70 | no |\n")
	require.Contains(t, b.String(), "| client CPU, s per million rows | ≤ 1.3 | 1.20 | yes |\n")
	require.Contains(t, b.String(), "| peak RSS exactly_once, MB | ≤ 48 |  |  |\n", "nothing measured is neither")
}

func TestOutputReadsBack(t *testing.T) {
	ours := passes(tenPerTx, atLeastOnce, 190_000.5, 95e3)
	reader := passes("codec-none", napping, 200e3)
	reader.passes[0].BytesOnLog = 361.25
	text := "goos: linux\ncores: 2\n"
	for _, s := range []*series{ours, reader} {
		for _, f := range s.passes {
			text += formatLine(s, f)
		}
	}
	config, all, err := parseOutput(strings.NewReader(text + "PASS\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"goos": "linux", "cores": "2"}, config)
	require.Equal(t, []*series{ours, reader}, all)

	_, _, err = parseOutput(strings.NewReader(text + "BenchmarkThroughput/load=x/contender=y-2 1000 12\n"))
	require.ErrorContains(t, err, "line 6")
}

func TestOutputOfRunsAddsUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	for range 2 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		s := passes(tenPerTx, napping, 1)
		require.NoError(t, (&output{f}).write(s, s.passes[0]))
		require.NoError(t, f.Close())
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, all, err := parseOutput(f)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Len(t, all[0].passes, 2)
}
