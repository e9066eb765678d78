package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// Options of a process.
type Options struct {
	Binary string            // default: Build()
	Args   []string          // default: ["run"]
	Env    map[string]string // on top of PATH and HOME, which is all it gets of ours
	Stdin  string
}

// Process is a running or ended cdc-outbox. Its methods may be called from several goroutines.
type Process struct {
	child *child.Child
	dir   *scratch.Dir
	http  string
	web   *http.Client

	peak    atomic.Int64 // VmHWM as last seen
	watched chan struct{}
}

// Start starts the binary, with its HTTP server on a free port unless the environment sets CDC_OUTBOX_HTTP_LISTEN.
// Close it.
func Start(opts Options) (*Process, error) {
	binary, args := opts.Binary, opts.Args
	if binary == "" {
		var err error
		if binary, err = Build(); err != nil {
			return nil, err
		}
	}
	if args == nil {
		args = []string{"run"}
	}
	listen := opts.Env["CDC_OUTBOX_HTTP_LISTEN"]
	if listen == "" {
		p, err := port.Free()
		if err != nil {
			return nil, err
		}
		listen = port.Addr(p)
	}
	dir, err := scratch.NewDir("process")
	if err != nil {
		return nil, err
	}
	p := &Process{
		dir: dir, http: "http://" + listen, web: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	out, err := os.Create(dir.Join("stdout"))
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	defer out.Close()
	log, err := os.Create(dir.Join("stderr"))
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir.Path
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(opts.Stdin), out, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir.Path, "CDC_OUTBOX_HTTP_LISTEN=" + listen}
	for k, v := range opts.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	slices.Sort(cmd.Env)
	if p.child, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	p.watched = make(chan struct{})
	go p.watchMemory()
	return p, nil
}

// watchMemory keeps the peak of the resident memory, which only /proc knows: the kernel's own account, ru_maxrss,
// begins with the size that the parent had at the fork (setmax_mm_hiwater_rss in exec_mmap), and a test process grows
// large.
func (p *Process) watchMemory() {
	defer close(p.watched)
	for {
		select {
		case <-p.child.Done():
			return
		case <-time.After(20 * time.Millisecond):
			p.lookAtMemory()
		}
	}
}

// lookAtMemory returns the resident memory now; VmHWM never falls while the process lives.
func (p *Process) lookAtMemory() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.child.PID()))
	if peak := kilobytes(status, "VmHWM:"); peak > p.peak.Load() {
		p.peak.Store(peak)
	}
	return kilobytes(status, "VmRSS:")
}

// Ready waits until /readyz answers 200. It returns at once when the process ends.
func (p *Process) Ready(ctx context.Context) error {
	for {
		ok, reason := p.IsReady()
		if ok {
			return nil
		}
		select {
		case <-p.child.Done():
			return fmt.Errorf("it ended (exit code %d) instead of getting ready; the end of its log:\n%s", p.ExitCode(),
				p.LogTail(15))
		case <-ctx.Done():
			return fmt.Errorf("not ready (%s): %w; the end of its log:\n%s", reason, ctx.Err(), p.LogTail(15))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// IsReady asks /readyz once and returns what it says. It does not wait for long: a frozen process does not answer.
func (p *Process) IsReady() (bool, string) {
	code, body, err := p.get("/readyz", 2*time.Second)
	if err != nil {
		return false, err.Error()
	}
	return code == http.StatusOK, strings.TrimSpace(body)
}

// Get asks the process's HTTP server. On a busy machine an answer may take seconds.
func (p *Process) Get(path string) (int, string, error) { return p.get(path, 20*time.Second) }

func (p *Process) get(path string, limit time.Duration) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.http+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := p.web.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// HTTPAddr is where its HTTP server listens, for a command that is to ask it.
func (p *Process) HTTPAddr() string { return strings.TrimPrefix(p.http, "http://") }

// Status is /status decoded.
func (p *Process) Status() (map[string]any, error) {
	_, body, err := p.Get("/status")
	if err != nil {
		return nil, err
	}
	var status map[string]any
	return status, json.Unmarshal([]byte(body), &status)
}

// Metric sums a metric over its labels; 0 when there is none. name may hold labels too: `x_total{topic="a"}`.
func (p *Process) Metric(name string) (float64, error) {
	_, body, err := p.Get("/metrics")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if bare, _, _ := strings.Cut(series, "{"); !ok || series != name && bare != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, lines.Err()
}

// PID is the process id.
func (p *Process) PID() int { return p.child.PID() }

// Signal sends sig.
func (p *Process) Signal(sig syscall.Signal) error { return p.child.Signal(sig) }

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() { p.child.Kill() }

// Stop sends SIGTERM, waits at most for limit, and returns the exit code.
func (p *Process) Stop(limit time.Duration) (int, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return -1, err
	}
	return p.Wait(limit)
}

// Wait waits for the end and returns the exit code; past limit it is an error, and the process is left running.
func (p *Process) Wait(limit time.Duration) (int, error) {
	if !p.child.Wait(limit) {
		return -1, fmt.Errorf("still running after %v; the end of its log:\n%s", limit, p.LogTail(15))
	}
	return p.ExitCode(), nil
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool { return p.child.Running() }

// ExitCode is the exit code, -1 while it runs or when a signal ended it.
func (p *Process) ExitCode() int {
	if s := p.child.State(); s != nil {
		return s.ExitCode()
	}
	return -1
}

// Usage is what a process took.
type Usage struct {
	CPU     time.Duration // user and system
	PeakRSS int64         // bytes; what it was a moment before the end may be missed
	RSS     int64         // bytes now; 0 after the end
}

// Usage of the process so far.
func (p *Process) Usage() Usage {
	if s := p.child.State(); s != nil {
		return Usage{CPU: s.UserTime() + s.SystemTime(), PeakRSS: p.peak.Load()}
	}
	u := Usage{RSS: p.lookAtMemory(), PeakRSS: p.peak.Load()}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.child.PID()))
	if i := strings.LastIndexByte(string(stat), ')'); i > 0 {
		// utime and stime are fields 14 and 15 of proc_pid_stat(5), in ticks of 10 ms
		if f := strings.Fields(string(stat[i:])); len(f) > 13 {
			user, _ := strconv.Atoi(f[12])
			system, _ := strconv.Atoi(f[13])
			u.CPU = time.Duration(user+system) * 10 * time.Millisecond
		}
	}
	return u
}

func kilobytes(status []byte, field string) int64 {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n * 1024
		}
	}
	return 0
}

// Stdout is all it has written to standard output.
func (p *Process) Stdout() string { return p.file("stdout") }

// Log is all it has written to standard error.
func (p *Process) Log() string { return p.file("stderr") }

func (p *Process) file(name string) string {
	b, _ := os.ReadFile(p.dir.Join(name))
	return string(b)
}

// LogTail returns the last n lines of the log.
func (p *Process) LogTail(n int) string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Close kills the process if it still runs and removes its files.
func (p *Process) Close() error {
	p.child.Kill()
	<-p.watched
	return p.dir.Remove()
}
