package child_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

// role makes the test binary the parent that is to be killed.
const role = "CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		parent()
	}
	leak.VerifyTestMain(m)
}

// parent starts a child, prints its process id and waits to be killed.
func parent() {
	c, err := child.Start(exec.Command("sleep", "60"), syscall.SIGKILL)
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(c.PID()) + "\n")
	<-c.Done()
	os.Exit(0)
}

func TestStartChildDiesWithParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "the child runs")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return gone(pid) }, 30*time.Second, 10*time.Millisecond)
}

// gone reports whether a process has ended; a zombie, which is not reaped yet, has ended too.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestStartOutlivesItsGoroutine(t *testing.T) {
	started := make(chan *child.Child)
	for range 20 {
		go func() {
			c, err := child.Start(exec.Command("sleep", "60"), syscall.SIGKILL)
			if err != nil {
				t.Error(err)
			}
			started <- c
		}()
	}
	var all []*child.Child
	for range 20 {
		all = append(all, <-started)
	}
	time.Sleep(200 * time.Millisecond) //waits:ok the threads of those goroutines are retired meanwhile
	for _, c := range all {
		require.True(t, c.Running())
		c.Kill()
		require.Equal(t, -1, c.State().ExitCode())
		require.Error(t, c.Err())
	}
}

func TestStartFailureLeavesNothing(t *testing.T) {
	_, err := child.Start(exec.Command("/nonexistent"), syscall.SIGKILL)
	require.Error(t, err)
}
