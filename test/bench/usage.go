package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
)

// clockTicks is the unit of the times in /proc/PID/stat: USER_HZ, 100 on every Linux that Go runs on (proc(5)).
const clockTicks = 100

// watched is what a process has used, sampled while it lives: /proc reports nothing about a process that has ended.
type watched struct {
	Since time.Time     // when it was first seen
	CPU   time.Duration // user and system
	Peak  int64         // resident memory, bytes
}

// watch samples a process every 20 ms until ctx ends or the process does.
func watch(ctx context.Context, pid int) watched {
	w := watched{Since: time.Now()}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		cpu, err := processCPU(pid)
		if err != nil {
			return w
		}
		w.CPU = max(w.CPU, cpu)
		w.Peak = max(w.Peak, processPeak(pid))
		select {
		case <-ctx.Done():
			return w
		case <-tick.C:
		}
	}
}

// watchWalsender samples the walsender that serves the slot.
func watchWalsender(ctx context.Context, conn *pgx.Conn, slot string) watched {
	for ctx.Err() == nil {
		var pid *int
		err := conn.QueryRow(ctx, "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1", slot).Scan(&pid)
		if err == nil && pid != nil {
			return watch(ctx, *pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return watched{}
}

// watchAsync runs f; the function returned ends the watch and yields what it saw.
func watchAsync(ctx context.Context, f func(context.Context) watched) func() watched {
	ctx, cancel := context.WithCancel(ctx)
	var w watched
	var wg sync.WaitGroup
	wg.Go(func() { w = f(ctx) })
	return func() watched { cancel(); wg.Wait(); return w }
}

func processCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold blanks; after it come state, ppid, ... with utime and stime as the 12th and
	// 13th.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(user+system) * time.Second / clockTicks, nil
}

// processPeak is VmHWM. Not the maxrss of wait4(2): a child that was started with vfork inherits its parent's.
func processPeak(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	if !ok {
		return 0 // a zombie
	}
	f := strings.Fields(rest)
	kB, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return 0
	}
	return kB << 10
}

// kafkaCPU is what all brokers have used so far.
func kafkaCPU(cluster *kafka.Cluster) (all time.Duration) {
	for _, broker := range cluster.Brokers {
		cpu, err := processCPU(broker.PID())
		if err != nil {
			return 0 // it has ended, which the pass reports
		}
		all += cpu
	}
	return all
}
