package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// relay is the running cdc-outbox process.
type relay struct {
	command func() *exec.Cmd
	logPath string
	url     string
	client  *http.Client

	stopping atomic.Bool

	mu        sync.Mutex
	process   *child.Child
	crashed   int    // how often it was killed and started again
	published uint64 // by the processes before this one, as far as they reported
	last      relayStatus
}

// relayStatus is what the demo reads of /status.
type relayStatus struct {
	State struct {
		Name   string
		Reason string
	}
	Ready       bool
	ReadyReason string `json:"ready_reason"`
	Counts      struct {
		Published uint64
		Repeated  uint64
	}
	Waits []struct {
		Object, Reason, Next string
	} `json:"waits_for"`
}

func startRelay(binary string, dir *scratch.Dir, dsn string, brokers []string) (*relay, error) {
	p, err := port.Free()
	if err != nil {
		return nil, err
	}
	r := &relay{
		logPath: dir.Join("cdc-outbox.log"),
		url:     "http://" + port.Addr(p),
		client:  &http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Second},
	}
	r.command = func() *exec.Cmd {
		cmd := exec.Command(binary, "run")
		cmd.Dir = dir.Path
		cmd.Env = []string{
			"CDC_OUTBOX_POSTGRES_DSN=" + dsn,
			"CDC_OUTBOX_KAFKA_BROKERS=" + strings.Join(brokers, ","),
			"CDC_OUTBOX_HTTP_LISTEN=" + port.Addr(p),
			"CDC_OUTBOX_LOG_FORMAT=console",
		}
		return cmd
	}
	r.process, err = r.start()
	return r, err
}

func (r *relay) start() (*child.Child, error) {
	log, err := os.OpenFile(r.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := r.command()
	cmd.Stdout, cmd.Stderr = log, log
	// The demo's broker ends with the demo, so there is nothing to drain to.
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return process, nil
}

// crash kills the process as kill -9 does, and starts it again.
func (r *relay) crash() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process.Kill()
	r.crashed++
	r.published = r.last.Counts.Published
	process, err := r.start()
	if err == nil {
		r.process = process
	}
	return err
}

func (r *relay) current() *child.Child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

func (r *relay) crashes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crashed
}

func (r *relay) pid() int { return r.current().PID() }

// awaitReady returns when the connector streams.
func (r *relay) awaitReady(ctx, stop context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s := r.status(ctx)
		switch {
		case s.Ready:
			return nil
		case !r.current().Running():
			return r.ended()
		case stop.Err() != nil:
			return errors.New("interrupted while cdc-outbox was starting")
		case ctx.Err() != nil:
			return fmt.Errorf("cdc-outbox is not ready after %s: %s\n%s", limit, s.ReadyReason, r.log())
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// watch returns an error when the process ends although the demo has not stopped it.
func (r *relay) watch(ctx context.Context) error {
	for {
		process := r.current()
		select {
		case <-ctx.Done():
			return nil
		case <-process.Done():
			if r.stopping.Load() {
				return nil
			}
			if r.current() == process { // it was not crash, which has put another into its place by now
				return r.ended()
			}
		}
	}
}

func (r *relay) ended() error {
	return fmt.Errorf("cdc-outbox ended with exit code %d; the end of its log:\n%s", r.current().State().ExitCode(),
		r.log())
}

// status asks the process; it returns the last answer when there is no new one, as while the process ends.
func (r *relay) status(ctx context.Context) relayStatus {
	s, err := r.ask(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		s.Counts.Published += r.published
		r.last = s
	}
	return r.last
}

func (r *relay) ask(ctx context.Context) (s relayStatus, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/status", nil)
	if err != nil {
		return s, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// stop asks the process to end, as a service manager would, and returns its exit code; -1 where it had to be killed.
func (r *relay) stop(limit time.Duration) int {
	r.stopping.Store(true)
	process := r.current()
	_ = process.Signal(syscall.SIGTERM)
	if !process.Wait(limit) {
		process.Kill()
		return -1
	}
	return process.State().ExitCode()
}

func (r *relay) kill() {
	r.stopping.Store(true)
	r.current().Kill()
	r.client.CloseIdleConnections()
}

// log returns the last lines of the process' log.
func (r *relay) log() string {
	b, _ := os.ReadFile(r.logPath)
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
