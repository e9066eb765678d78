package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
)

// process is a contender's process while it runs; its output is kept for the case that it fails.
type process struct {
	*child.Child
	started time.Time
	output  *tail
	usage   func() watched
}

// startProcess starts cmd, which does not outlive this process.
func startProcess(ctx context.Context, cmd *exec.Cmd) (*process, error) {
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{started: time.Now(), output: out}
	var err error
	if p.Child, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p.usage = watchAsync(ctx, func(ctx context.Context) watched { return watch(ctx, p.PID()) })
	return p, nil
}

// await waits for the end of a process that ends without a signal.
func (p *process) await(ctx context.Context) error {
	select {
	case <-p.Done():
		return p.failure()
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%w; the end of its output:\n%s", context.Cause(ctx), p.output)
	}
}

// stop asks a process that would run for ever to end.
func (p *process) stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if !p.Wait(30 * time.Second) {
		p.Kill()
		return fmt.Errorf("it did not end within 30 s of SIGTERM; the end of its output:\n%s", p.output)
	}
	return nil
}

func (p *process) failure() error {
	if err := p.Err(); err != nil {
		return fmt.Errorf("%w; the end of its output:\n%s", err, p.output)
	}
	return nil
}

// used is what the process used, exact in CPU once it has ended.
func (p *process) used() watched {
	w := p.usage()
	if s := p.State(); s != nil {
		w.CPU = s.UserTime() + s.SystemTime()
	}
	return w
}

// result is what a pass took. Its time counts from the moment when the slot was taken, so that a rate over a small load
// is not one of start and login; what came before is the start.
func (p *process) result(end time.Time, walsender watched) result {
	r := result{Began: p.started, Taken: walsender.Since, End: end, Client: p.used(), Server: walsender.CPU}
	if r.Taken.IsZero() { // it was over before the slot could be seen in use
		r.Taken = r.Began
	}
	return r
}

// tail keeps the last few kilobytes written to it. exec.Cmd writes from one goroutine; read it after the end.
type tail struct{ buf bytes.Buffer }

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.buf.Write(p)
	if t.buf.Len() > 2*tailSize {
		t.buf.Next(t.buf.Len() - tailSize)
	}
	return len(p), nil
}

func (t *tail) String() string { return t.buf.String() }
