package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// cpuGroups gives processes a share of a core through the kernel's bandwidth control, version 1 or 2 of cgroups.
type cpuGroups struct {
	root string
	v2   bool
	made []string
}

const cgroupRoot = "/sys/fs/cgroup"

// cpuPeriod is short, so that a process is slow rather than fast and stopped by turns; the quota's least is 1 ms.
const cpuPeriod = 5000 // microseconds

func findCPUGroups() (*cpuGroups, error) {
	if v1 := filepath.Join(cgroupRoot, "cpu"); exists(filepath.Join(v1, "cgroup.procs")) {
		return &cpuGroups{root: v1}, nil
	}
	if controllers, _ := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers")); //
	strings.Contains(" "+string(controllers)+" ", "cpu") {
		// The root's children get the controller only when it is handed down.
		path := filepath.Join(cgroupRoot, "cgroup.subtree_control")
		if err := os.WriteFile(path, []byte("+cpu"), 0); err != nil {
			return nil, fmt.Errorf("%w: %w", errSkipped, err)
		}
		return &cpuGroups{root: cgroupRoot, v2: true}, nil
	}
	return nil, fmt.Errorf("%w: no cgroup with the cpu controller under %s", errSkipped, cgroupRoot)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// limits are the files of a group that bound its CPU, and what they hold for a number of cores.
func (g *cpuGroups) limits(cores float64) map[string]string {
	period, quota := strconv.Itoa(cpuPeriod), strconv.Itoa(max(int(cores*cpuPeriod), 1000))
	if g.v2 {
		return map[string]string{"cpu.max": quota + " " + period}
	}
	return map[string]string{"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota}
}

func (g *cpuGroups) create(name string, cores float64) (string, error) {
	dir := filepath.Join(g.root, fmt.Sprintf("cdc-outbox-bench-%d-%s", os.Getpid(), name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", errSkipped, err)
	}
	g.made = append(g.made, dir)
	for file, value := range g.limits(cores) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			return "", fmt.Errorf("%w: %w", errSkipped, err)
		}
	}
	return dir, nil
}

func join(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// close moves what still runs back to the root and removes the groups.
func (g *cpuGroups) close() {
	for _, dir := range g.made {
		pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, pid := range strings.Fields(string(pids)) {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = join(g.root, n) // a process that has ended meanwhile
			}
		}
		if err := os.Remove(dir); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
}

// slowed gives Postgres, the client and Kafka a group each. The walsender is one process and most of a client's work is
// one thread, so their share is of one core; Kafka works on all.
func slowed(share float64) func(context.Context, *bed) (func(), error) {
	return func(_ context.Context, b *bed) (func(), error) {
		g, err := findCPUGroups()
		if err != nil {
			return nil, err
		}
		undo := func() {
			b.clientGroup = ""
			g.close()
		}
		for name, group := range map[string]struct {
			pid   int
			cores float64
		}{
			"postgres": {b.postgres.PID(), share}, "client": {0, share},
			"kafka": {b.kafka.Brokers[0].PID(), share * float64(runtime.NumCPU())},
		} {
			dir, err := g.create(name, group.cores)
			switch {
			case err != nil:
			case group.pid == 0:
				b.clientGroup = dir
			default:
				err = join(dir, group.pid)
			}
			if err != nil {
				undo()
				return nil, err
			}
		}
		return undo, nil
	}
}
