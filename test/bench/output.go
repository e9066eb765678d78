package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// output is a file in the format of Go's benchmarks (golang.org/design/14313-benchmark-format): benchstat compares two
// of them, and the tables of the documentation are made from one.
type output struct{ file *os.File }

const benchmark = "BenchmarkThroughput"

// units are the figures of a line.
var units = []struct {
	name string
	of   func(*figures) *float64
}{
	{"rows/s", func(f *figures) *float64 { return &f.Rate }},
	{"client-s/M", func(f *figures) *float64 { return &f.Client }},
	{"walsender-s/M", func(f *figures) *float64 { return &f.Walsender }},
	{"peak-MB", func(f *figures) *float64 { return &f.Peak }},
	{"start-s", func(f *figures) *float64 { return &f.Start }},
	{"log-B/row", func(f *figures) *float64 { return &f.BytesOnLog }},
}

// openOutput appends to a file, so that several runs make one series of passes.
func openOutput(path string, b *bed) (*output, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(f, "goos: %s\ngoarch: %s\ngo: %s\ncores: %d\npostgres: %s\nkafka: %s\n", runtime.GOOS,
		runtime.GOARCH, runtime.Version(), runtime.NumCPU(), b.postgres.Version(), kafkaVersion)
	return &output{f}, err
}

func (o *output) write(s *series, f figures) error {
	if o == nil {
		return nil
	}
	_, err := io.WriteString(o.file, formatLine(s, f))
	return err
}

func formatLine(s *series, f figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/load=%s/contender=%s-%d\t%d", benchmark, s.load, s.key, runtime.NumCPU(), s.rows)
	for _, u := range units {
		if v := *u.of(&f); v != 0 {
			fmt.Fprintf(&b, "\t%s %s", strconv.FormatFloat(v, 'f', 4, 64), u.name)
		}
	}
	return b.String() + "\n"
}

// parseOutput reads such a file: its configuration and its series, in their order.
func parseOutput(r io.Reader) (config map[string]string, all []*series, err error) {
	config = map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if !strings.HasPrefix(line, benchmark+"/") {
			if key, value, ok := strings.Cut(line, ": "); ok {
				config[key] = value
			}
			continue
		}
		one, f, err := parseLine(line)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", n, err)
		}
		s := find(all, one.load, one.key)
		if s == nil {
			s = one
			all = append(all, s)
		}
		s.passes = append(s.passes, f)
	}
	return config, all, lines.Err()
}

func parseLine(line string) (*series, figures, error) {
	var f figures
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 {
		return nil, f, fmt.Errorf("%q: not a name, a count and pairs of value and unit", line)
	}
	name := strings.TrimPrefix(fields[0], benchmark+"/load=")
	if cut := strings.LastIndexByte(name, '-'); cut > 0 {
		name = name[:cut] // the number of cores
	}
	load, key, ok := strings.Cut(name, "/contender=")
	if !ok {
		return nil, f, fmt.Errorf("%q: no contender", fields[0])
	}
	rows, err := strconv.Atoi(fields[1])
	if err != nil {
		return nil, f, err
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return nil, f, err
		}
		for _, u := range units {
			if u.name == fields[i+1] {
				*u.of(&f) = v
			}
		}
	}
	return &series{load: load, key: key, name: contenderName(key), rows: rows}, f, nil
}

func contenderName(key string) string {
	if name, ok := nameOf[key]; ok {
		return name
	}
	return key
}
