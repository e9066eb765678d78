package main

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"time"
)

const neighbourCommand = "neighbour"

// crowded lets other processes want the CPU, too: two for each core, each by turns of some milliseconds. Neither side
// then knows when it will run, which must not look like a full queue to a reader that measures its naps.
func crowded(ctx context.Context, _ *bed) (func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []*process
	undo := func() {
		for _, p := range all {
			_ = p.stop()
		}
	}
	for range 2 * runtime.NumCPU() {
		p, err := startProcess(ctx, exec.Command(self, neighbourCommand))
		if err != nil {
			undo()
			return nil, err
		}
		all = append(all, p)
	}
	return undo, nil
}

// neighbour works and waits by turns, until ctx ends.
func neighbour(ctx context.Context) {
	turn := func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(6*time.Millisecond)) }
	for ctx.Err() == nil {
		for end := time.Now().Add(turn()); ; {
			if time.Now().After(end) {
				break
			}
		}
		time.Sleep(turn())
	}
}
