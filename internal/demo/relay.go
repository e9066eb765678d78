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

	"github.com/cdc-outbox/cdc-outbox/internal/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/internal/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/internal/testkit/scratch"
)

// relay is the running cdc-outbox process.
type relay struct {
	process *child.Child
	logPath string
	url     string
	client  *http.Client

	stopping atomic.Bool

	mu   sync.Mutex
	last relayStatus
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
	log, err := os.Create(r.logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, "run")
	cmd.Dir = dir.Path
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{
		"CDC_OUTBOX_POSTGRES_DSN=" + dsn,
		"CDC_OUTBOX_KAFKA_BROKERS=" + strings.Join(brokers, ","),
		"CDC_OUTBOX_HTTP_LISTEN=" + port.Addr(p),
		"CDC_OUTBOX_LOG_FORMAT=console",
	}
	// With the demo its broker is gone, too, so there is nothing to drain to.
	r.process, err = child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return r, nil
}

func (r *relay) pid() int { return r.process.PID() }

// awaitReady returns when the connector streams.
func (r *relay) awaitReady(ctx, stop context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s := r.status(ctx)
		switch {
		case s.Ready:
			return nil
		case !r.process.Running():
			return r.ended()
		case stop.Err() != nil:
			return errors.New("interrupted while cdc-outbox was starting")
		case ctx.Err() != nil:
			return fmt.Errorf("cdc-outbox isn't ready after %s: %s\n%s", limit, s.ReadyReason, r.log())
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// watch returns an error when the process ends although nobody asked it to.
func (r *relay) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.process.Done():
		if r.stopping.Load() {
			return nil
		}
		return r.ended()
	}
}

func (r *relay) ended() error {
	return fmt.Errorf("cdc-outbox ended with exit code %d; the end of its log:\n%s", r.process.State().ExitCode(), r.log())
}

// status asks the process; it returns the last answer when there is no new one, as while the process ends.
func (r *relay) status(ctx context.Context) relayStatus {
	s, err := r.ask(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
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
	_ = r.process.Signal(syscall.SIGTERM)
	if !r.process.Wait(limit) {
		r.process.Kill()
		return -1
	}
	return r.process.State().ExitCode()
}

func (r *relay) kill() {
	r.stopping.Store(true)
	r.process.Kill()
	r.client.CloseIdleConnections()
}

// log returns the last lines of the process' log.
func (r *relay) log() string {
	b, _ := os.ReadFile(r.logPath)
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
