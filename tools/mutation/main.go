// Command mutation measures how many small changes of a package its tests notice.
//
// It plants the mutants of github.com/go-gremlins/gremlins: arithmetic, boundaries and negation of comparisons,
// increments, signs, logical operators and assignments with an operator. All of them are compiled into one test binary,
// through an overlay of the package's files, and an environment variable switches one on. So a mutant costs the time of
// its tests and no compilation, and conditions of a switch's cases are mutated like all others. Only the tests that
// reach a mutant run, the fastest first. Constant declarations are not mutated.
//
// Mutants that no test can or need notice are listed, each with its reason, in testdata/survivors.txt of the package. A
// mutant that survives without a reason fails the run, and so does a reason whose mutant does not survive.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

type options struct {
	files, only       string
	run, skip         string
	tests, work       string
	slowest, patience time.Duration
	again, verbose    bool
	long              bool
}

func main() {
	var o options
	flag.StringVar(&o.files, "files", "*.go", "mutate the files of these patterns only, separated by commas")
	flag.StringVar(&o.only, "only", "", "try only mutants that match this regular expression")
	flag.StringVar(&o.run, "run", "", "run only tests whose names match this regular expression")
	flag.StringVar(&o.skip, "skip", "^$", "leave out tests whose names match this regular expression")
	flag.StringVar(&o.tests, "tests", "", "run the tests of this package too")
	flag.StringVar(&o.work, "work", ".cache/mutation", "where binaries and results are kept")
	flag.DurationVar(&o.slowest, "slowest", 5*time.Second, "leave out tests that need longer")
	flag.DurationVar(&o.patience, "patience", 3*time.Second, "limit of tests, beside four times what they take")
	flag.BoolVar(&o.long, "long", false, "run the tests without -short, so that tests with servers run too")
	flag.BoolVar(&o.again, "again", false, "try only the mutants that survived the last run")
	flag.BoolVar(&o.verbose, "v", false, "print each mutant with its outcome")
	flag.Parse()
	failed, err := measure(flag.Arg(0), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// measure reports whether a mutant survived without a reason, or a reason is out of date.
func measure(path string, o options) (bool, error) {
	pkg, err := load(path)
	if err != nil {
		return false, err
	}
	mutants, err := pkg.plant(o.files)
	if err != nil {
		return false, err
	}
	work, err := filepath.Abs(filepath.Join(o.work, pkg.types.Name()))
	if err != nil {
		return false, err
	}
	overlay, err := pkg.writeOverlay(work, mutants)
	if err != nil {
		return false, err
	}
	bed := &bed{work: work, options: o, reached: make(map[int][]*test)}
	for _, tests := range append([]string{path}, strings.Fields(o.tests)...) {
		if err := bed.add(tests, overlay); err != nil {
			return false, err
		}
	}
	explained, err := readSurvivors(filepath.Join(pkg.dir, "testdata", "survivors.txt"))
	if err != nil {
		return false, err
	}
	chosen, before, err := choose(mutants, o, filepath.Join(work, "survived"))
	if err != nil {
		return false, err
	}
	lived := bed.try(chosen, explained)
	last := strings.Join(keys(lived), "\n")
	if err := os.WriteFile(filepath.Join(work, "survived"), []byte(last), 0o600); err != nil {
		return false, err
	}
	bed.killed += before
	return report(path, bed, chosen, lived, explained), nil
}

// choose returns the mutants to try, and how many the last run killed.
func choose(mutants []*mutant, o options, last string) (chosen []*mutant, before int, err error) {
	match, err := regexp.Compile(o.only)
	if err != nil {
		return nil, 0, err
	}
	survived := ""
	if o.again {
		text, err := os.ReadFile(last)
		if err != nil {
			return nil, 0, err
		}
		survived = "\n" + string(text) + "\n"
	}
	for _, m := range mutants {
		switch {
		case !match.MatchString(m.at + " " + m.key):
		case o.again && !strings.Contains(survived, "\n"+m.key+"\n"):
			before++
		default:
			chosen = append(chosen, m)
		}
	}
	return chosen, before, nil
}

func keys(mutants []*mutant) []string {
	var all []string
	for _, m := range mutants {
		all = append(all, m.key)
	}
	return all
}
