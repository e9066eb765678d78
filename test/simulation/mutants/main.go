// Command mutants plants one bug after the other in the relay and reports the first seed of the simulation that fails.
// The bugs are replacements in copies of the source files, given to the compiler as an overlay, so the product carries
// no switches for them. Where two rules make up for each other, a bug takes both out.
//
//	go run ./test/simulation/mutants [-seeds 2000] [-only PATTERN [-show]]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	seeds := flag.Int("seeds", 2000, "how many seeds a bug may survive")
	only := flag.String("only", "", "only the bugs whose name matches this")
	show := flag.Bool("show", false, "print the shortest schedule of steps that shows the bug")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lived := 0
	fmt.Println("| planted bug | file | first seed | broken promise |\n|---|---|---|---|")
	for _, b := range bugs() {
		if !wanted.MatchString(b.name) {
			continue
		}
		seed, promise, err := b.run(dir, *seeds, *show)
		if err != nil {
			seed, promise = "-", err.Error()
		}
		if err != nil || promise == "none" {
			lived++
		}
		fmt.Printf("| %s | %s | %s | %s |\n", b.name, b.files(), seed, promise)
	}
	_ = os.RemoveAll(dir)
	if lived > 0 {
		fmt.Fprintf(os.Stderr, "%d survived\n", lived)
		os.Exit(1)
	}
}

var (
	failed = regexp.MustCompile(`(?m)seed (\d+)\n\s+([A-Z]): `)
	stuck  = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)$`)
)

// runTest runs the test that has to fail.
func (b bug) runTest(overlay string) (seed, promise string, err error) {
	dir, name, _ := strings.Cut(b.test, " ")
	test := exec.Command("go", "test", "-vet=off", "-timeout", "2m", "-overlay", overlay, "-run", "^"+name+"$", dir)
	out, err := test.CombinedOutput()
	switch {
	case strings.Contains(string(out), "--- FAIL: "+name) || stuck.Match(out):
		return "-", "`" + name + "` in `" + strings.TrimPrefix(dir, "./") + "` fails", nil
	case err != nil:
		return "", "", fmt.Errorf("%s: %s", name, strings.Join(strings.Fields(string(out)), " "))
	}
	return "-", "none", nil
}

// plant writes the changed files and the overlay that puts them in the place of the originals.
func (b bug) plant(dir string) (overlayFile string, err error) {
	changed := map[string]string{} // texts by file
	for _, c := range b.changes {
		text, known := changed[c.file]
		if !known {
			original, err := os.ReadFile(c.file)
			if err != nil {
				return "", err
			}
			text = string(original)
		}
		if n := strings.Count(text, c.from); n != 1 {
			return "", fmt.Errorf("the text to replace is in %s %d times", c.file, n)
		}
		changed[c.file] = strings.Replace(text, c.from, c.to, 1)
	}
	replace := map[string]string{}
	for file, text := range changed {
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		planted := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(planted, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[original] = planted
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlayFile = filepath.Join(dir, "overlay.json")
	return overlayFile, os.WriteFile(overlayFile, overlay, 0o600)
}

// run builds the simulation with the bug in it and runs it until a seed fails.
func (b bug) run(dir string, seeds int, show bool) (seed, promise string, err error) {
	overlayFile, err := b.plant(dir)
	if err != nil {
		return "", "", err
	}
	binary := filepath.Join(dir, "simulation.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", binary, "./test/simulation")
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("it does not compile: %s", strings.Join(strings.Fields(string(out)), " "))
	}
	if b.test != "" {
		return b.runTest(overlayFile)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	test := "^TestSeeds$"
	if b.with == polling {
		test = "^TestPollingSeeds$"
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", test, "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("SIMULATION_SEEDS=%d", seeds), "SIMULATION_FAILURES=1",
		"SIMULATION_WITH="+b.with)
	if !show {
		cmd.Env = append(cmd.Env, "SIMULATION_SHORTEN=0s")
	}
	out, err := cmd.CombinedOutput()
	if show {
		_, _ = os.Stdout.Write(out)
	}
	if found := failed.FindSubmatch(out); found != nil {
		return string(found[1]), string(found[2]), nil
	}
	if found := stuck.FindSubmatch(out); found != nil {
		return "first ones", string(found[1]), nil
	}
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return "first ones", "does not come to an end", nil
	}
	if err != nil && !errors.As(err, &exit) {
		return "", "", err
	}
	return "-", "none", nil
}
