// Package child starts server processes that cannot outlive the test that started them.
//
// The kernel's parent-death signal (prctl(2), PR_SET_PDEATHSIG) is tied to the parent's thread, not to its process: a
// Go program that starts a child from a goroutine sees it killed when the runtime retires the thread that goroutine
// happened to run on. So each child is started and awaited by a goroutine of its own that is locked to its thread.
//
// Only Linux has that signal. On other systems a child ends when its test closes it, and outlives a test that is
// killed.
package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Child is a started process. Its methods may be called from several goroutines.
type Child struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	err   error
	ended bool
}

// Start starts cmd; on Linux the kernel sends it onDeath when this process dies, however it dies. cmd belongs to the
// Child from then on. One goroutine waits for the process and ends with it. The process leads a group of its own:
// Ctrl-C on a terminal goes to the whole foreground group, and would stop the servers before their users.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, onDeath)
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	if err == nil {
		c.pid = c.cmd.Process.Pid
	}
	started <- err
	if err != nil {
		return
	}
	err = c.cmd.Wait()
	c.mu.Lock()
	c.err, c.ended = err, true
	c.mu.Unlock()
	close(c.done)
}

// PID is the process id; it stays the same after the end.
func (c *Child) PID() int { return c.pid }

// Done is closed when the process has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Running reports whether the process has not been reaped yet.
func (c *Child) Running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Signal sends sig to the process; after its end it does nothing, so a reused id is never hit.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Wait blocks until the process has ended, at most for limit; false when it still runs.
func (c *Child) Wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// Kill sends SIGKILL and waits for the end.
func (c *Child) Kill() {
	_ = c.Signal(syscall.SIGKILL)
	<-c.done
}

// State is the process's end (exit code, signal, CPU time, peak memory); nil while it runs.
func (c *Child) State() *os.ProcessState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		return nil
	}
	return c.cmd.ProcessState
}

// Err is what exec.Cmd.Wait returned; nil while it runs and after exit code 0.
func (c *Child) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
