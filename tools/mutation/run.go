package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bed has the test binaries with all mutants, and which test reaches which mutant.
type bed struct {
	options options
	work    string
	reached map[int][]*test

	killed, timedOut, notReached int
}

// test is one test function, or several of a binary.
type test struct {
	binary, dir string
	names       []string
	took        time.Duration
	short       bool
}

// memory is a bound in KB for a mutant that allocates without end.
const memory = 8 << 20

// add compiles the tests of a package and runs each of them once without a mutant.
func (b *bed) add(path, overlay string) error {
	dir, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	binary := filepath.Join(b.work, strings.ReplaceAll(filepath.Clean(path), "/", "-")+".test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, path)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("compile the tests of %s: %w", path, err)
	}
	list := exec.Command(binary, "-test.list", "^(Test|Fuzz|Example)")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the tests of %s: %w", path, err)
	}
	skip, err := regexp.Compile(b.options.skip)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(b.options.run)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(out)) {
		if skip.MatchString(name) || !only.MatchString(name) {
			continue
		}
		t := &test{binary: binary, dir: dir, names: []string{name}, short: !b.options.long}
		if err := b.record(t); err != nil {
			return err
		}
	}
	return nil
}

// record runs a test without a mutant and writes down what it reaches.
func (b *bed) record(t *test) error {
	file := filepath.Join(b.work, "reached")
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	begun := time.Now()
	out, ok := t.run(2*b.options.slowest+10*time.Second, "MUTANTS_REACHED="+file)
	t.took = time.Since(begun)
	switch {
	case !ok:
		fmt.Printf("left out: %s fails without a mutant\n", t.names[0])
		if b.options.verbose {
			fmt.Printf("%s\n", out)
		}
		return nil
	case t.took > b.options.slowest:
		fmt.Printf("left out: %s takes %v\n", t.names[0], t.took.Round(time.Millisecond))
		return nil
	}
	if b.options.verbose {
		fmt.Printf("%s takes %v\n", t.names[0], t.took.Round(time.Millisecond))
	}
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for line := range strings.FieldsSeq(string(text)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		b.reached[id] = append(b.reached[id], t)
	}
	return nil
}

func (t *test) run(limit time.Duration, env string) ([]byte, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory), t.binary,
		fmt.Sprintf("-test.short=%t", t.short), "-test.failfast", "-test.timeout="+limit.String(),
		"-test.run=^("+strings.Join(t.names, "|")+")$")
	cmd.Dir, cmd.Env = t.dir, append(os.Environ(), env)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return out, err == nil && ctx.Err() == nil
}

// try switches one mutant on after the other, and returns the survivors. It prints the survivors that have no reason.
func (b *bed) try(mutants []*mutant, reasons map[string]string) []*mutant {
	var lived []*mutant
	for _, m := range mutants {
		outcome := b.outcome(m)
		survived := outcome == "lived" || outcome == "not reached"
		if survived {
			lived = append(lived, m)
		}
		if b.options.verbose || survived && reasons[m.key] == "" {
			fmt.Printf("%-11s %s %s\n", outcome, m.at, m.key)
		}
	}
	return lived
}

func (b *bed) outcome(m *mutant) string {
	tests := b.reached[m.id]
	if len(tests) == 0 {
		b.notReached++
		return "not reached"
	}
	for _, t := range batches(tests) {
		for limit := b.options.patience + 4*t.took; ; limit *= 2 {
			out, ok := t.run(limit, "MUTANT="+strconv.Itoa(m.id))
			if ok {
				break
			}
			if !bytes.Contains(out, []byte("panic: test timed out")) {
				b.killed++
				return "killed"
			}
			if _, ok := t.run(limit, "MUTANT="); ok { // otherwise the machine is busy
				b.timedOut++
				return "timed out"
			}
		}
	}
	return "lived"
}

// batches orders tests by the time they take, and joins quick ones of a binary into one run of up to a second.
func batches(tests []*test) []*test {
	tests = slices.Clone(tests)
	slices.SortStableFunc(tests, func(a, b *test) int { return int(a.took - b.took) })
	var all []*test
	for _, t := range tests {
		if n := len(all) - 1; n >= 0 && all[n].binary == t.binary && all[n].took+t.took < time.Second {
			all[n].names = append(all[n].names, t.names...)
			all[n].took += t.took
			continue
		}
		batch := *t
		batch.names = slices.Clone(t.names)
		all = append(all, &batch)
	}
	return all
}
