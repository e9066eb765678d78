package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme: it stays short, and quotes the figures of performance.md with their conditions.
//
// Bug (monitor): README.md advertised 1.3 GB for Debezium where its own table had 1.6 GB. Cost: a figure that is not
// believed.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	readme := string(text)
	require.LessOrEqual(t, strings.Count(readme, "\n"), 200, "lines")
	page, err := os.ReadFile("performance.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "<!-- bench:throughput -->\n")
	require.True(t, found)
	conditions, _, _ := strings.Cut(table, ", go")
	_, quoted, found := strings.Cut(readme, "### Measured\n")
	require.True(t, found)
	quoted, _, _ = strings.Cut(quoted, "\n### ")
	require.Contains(t, quoted, "`fsync = off`")
	for _, version := range strings.Split(conditions, ", ") {
		require.Contains(t, quoted, version)
	}
	rows := regexp.MustCompile(`(?m)^\| ([a-zD][^|]*?) \| (\S+ k) \| (\S+) \| (\d+) MB \|$`).
		FindAllStringSubmatch(quoted, -1)
	require.Len(t, rows, 4)
	memory := map[string]int{}
	for _, m := range rows {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(m[1]) + ` \| .*$`).FindString(table)
		cells := strings.Split(row, "|")
		require.Len(t, cells, 10, m[1])
		require.True(t, strings.HasPrefix(cells[2], " "+m[2]+" ("), "%s: rows/s are %s", m[1], cells[2])
		require.Equal(t, m[3], strings.TrimSpace(cells[5]), m[1])
		require.Equal(t, m[4]+" MB", strings.TrimSpace(cells[8]), m[1])
		memory[m[1]], err = strconv.Atoi(m[4])
		require.NoError(t, err)
	}
	claim := regexp.MustCompile(`about (\d+) MB of memory instead of ([\d.]+) GB`).FindStringSubmatch(readme)
	require.NotNil(t, claim)
	ours, err := strconv.Atoi(claim[1])
	require.NoError(t, err)
	require.InDelta(t, memory["cdc-outbox to Kafka"], ours, 4)
	theirs, err := strconv.ParseFloat(claim[2], 64)
	require.NoError(t, err)
	require.InDelta(t, float64(memory["Debezium, default settings, to Kafka (rounds: 2)"])/1000, theirs, 0.05)
}

// TestSizing: the page is computed from the figures of performance.md.
func TestSizing(t *testing.T) {
	page, err := os.ReadFile("performance.md")
	require.NoError(t, err)
	sizing, err := os.ReadFile("sizing.md")
	require.NoError(t, err)
	cells := func(section, row string) []string {
		_, table, found := strings.Cut(string(page), "<!-- bench:"+section+" -->\n")
		require.True(t, found)
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| .*$`).FindString(table)
		require.NotEmpty(t, line)
		return strings.Split(line, " | ")
	}
	relay, record := cells("throughput", "cdc-outbox to Kafka"), strings.TrimSuffix(cells("codecs", "none")[4], " |")
	client, sender, memory := relay[4], relay[5], strings.TrimSuffix(relay[7], " |")
	for _, source := range []string{
		"| connector, CPU per million events | " + client + " s |",
		"| walsender, CPU per million events | " + sender + " s |",
		"| connector's peak memory | " + memory + ";", "| bytes of a record on the broker's disk | " + record + " |",
		"| bytes of WAL per event | 605; 648 ",
	} {
		source = strings.TrimSuffix(source, ";")
		require.Contains(t, string(sizing), source)
	}
	perMillion := func(cell string) float64 {
		v, err := strconv.ParseFloat(cell, 64)
		require.NoError(t, err)
		return v
	}
	rows := regexp.MustCompile(
		`(?m)^\| ([\d,]+) \| ([\d.,]+)/s \| (\S+) \| (\S+) \| (\S+ .B) \| (\S+ .B) \| 40 MB \|$`).
		FindAllStringSubmatch(string(sizing), -1)
	require.Len(t, rows, 5)
	for _, m := range rows {
		n := perMillion(strings.ReplaceAll(m[1], ",", ""))
		seconds := func(s float64) string {
			if s*n < 0.5e6 {
				return "idle"
			}
			return fmt.Sprint(int(s*n/1e6 + 0.5))
		}
		require.Equal(t, seconds(perMillion(client)), strings.ReplaceAll(m[3], ",", ""), m[0])
		require.Equal(t, seconds(perMillion(sender)), strings.ReplaceAll(m[4], ",", ""), m[0])
		for size, bytes := range map[string]float64{m[5]: 605 * n, m[6]: 3 * perMillion(record) * n} {
			number, unit, _ := strings.Cut(size, " ")
			scale := map[string]float64{"MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
			require.InEpsilon(t, bytes, perMillion(number)*scale, 0.01, m[0])
		}
	}
}
