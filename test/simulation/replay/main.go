// Command replay prepares an overlay of Go's runtime with which a run of the simulation can be repeated exactly. In the
// bubble of a run, everything that the runtime decides by chance then follows from the seed: which ready case a select
// takes, the order of timers of one instant, of a map's entries, and math/rand/v2. Nothing of it is in the product.
//
//	go run ./test/simulation/replay DIR
//	go test -overlay DIR/overlay.json -tags replay ./test/simulation
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// patch replaces one text of a file, which has to be there exactly once.
type patch struct{ file, from, to string }

var patches = []patch{
	{"rand.go", "	mp := getg().m\n	c := &mp.chacha8\n", `
	if replayState != 0 && getg().bubble != nil {
		return replayRand()
	}
	mp := getg().m
	c := &mp.chacha8
`},
	{"rand.go", "//go:linkname maps_rand internal", `// replayState is 0 where nothing is to be repeated.
var replayState uint64

//go:linkname replaySeed
func replaySeed(x uint64) { replayState = x | 1 }

//go:nosplit
func replayRand() uint64 {
	replayState += 0x9e3779b97f4a7c16
	x := replayState
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

//go:nosplit
func replayCheaprand() uint32 {
	if replayState != 0 {
		return uint32(replayRand() >> 20)
	}
	return cheaprand()
}

//go:linkname maps_rand internal`},
	{
		"rand.go", "	globalRand.state.Init(*seed)\n", "	*seed = [32]byte{1}\n	globalRand.state.Init(*seed)\n",
	},
	{"select.go", "		j := cheaprandn(uint32(norder + 1))\n", `		var j uint32
		if replayState != 0 && getg().bubble != nil {
			j = uint32((uint64(replayCheaprand()) * uint64(norder+1)) >> 32)
		} else {
			j = cheaprandn(uint32(norder + 1))
		}
`},
	{"time.go", "			t.rand = cheaprand()\n", "			t.rand = replayCheaprand()\n"},
	// no goroutine is interrupted, and none loses its processor in a system call, because the machine was slow
	{"proc.go", "func retake(now int64) uint32 {\n", `func retake(now int64) uint32 {
	if replayState != 0 {
		return 0
	}
`},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: replay DIR")
		os.Exit(2)
	}
	if err := prepare(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func prepare(dir string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	texts := map[string]string{}
	var errs []error
	for _, p := range patches {
		path := filepath.Join(strings.TrimSpace(string(root)), "src", "runtime", p.file)
		if texts[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts[path] = string(b)
		}
		if n := strings.Count(texts[path], p.from); n != 1 {
			errs = append(errs, fmt.Errorf("%s has %q %d times: look at what this version of Go does", path, p.from, n))
			continue
		}
		texts[path] = strings.Replace(texts[path], p.from, p.to, 1)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := write(replace[path], []byte(text)); err != nil {
			return err
		}
	}
	overlay, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, "overlay.json"), overlay)
}

// write leaves a file alone that is as it should be, so that nothing is compiled again.
func write(path string, text []byte) error {
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) {
		return nil
	}
	return os.WriteFile(path, text, 0o644)
}
