package replication

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

var (
	drainRows = flag.Int("drain", 0, "measure how fast this many rows of WAL can be read, e.g. 300000")
	drainPer  = flag.Int("drain-per", 10, "rows per transaction for -drain")
	drainRuns = flag.Int("drain-runs", 3, "how often for -drain")
)

// TestDrain measures the upper limit of everything built on a Stream: it reads and decodes WAL that is already there
// and does nothing with it, beside pg_recvlogical on the same WAL.
//
//	go test ./replication -run TestDrain -drain 300000 -v
func TestDrain(t *testing.T) {
	if *drainRows == 0 {
		t.Skip("only with -drain")
	}
	db := testkit.Postgres(t)
	s := newSource(t, db)
	s.Exec(t, `DROP TABLE outbox`)
	s.Exec(t,
		`CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text,
			event_type text,
		payload jsonb, headers jsonb, created_at timestamptz DEFAULT now())`)
	s.Exec(t, `ALTER PUBLICATION `+identifier.Quote(s.Config.Publication)+` ADD TABLE outbox`)
	s.Exec(t, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
		INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', (i*7+j)::text, 'created', jsonb_build_object('n', i, 'text', repeat('x', 310)) FROM `+
		`generate_series(1, %d) j;
		COMMIT; END LOOP; END $$`, *drainRows / *drainPer, *drainPer))
	for run := range *drainRuns {
		for name, measure := range map[string]func(slot string) cost{
			"stream": s.drainStream(t), "pg_recvlogical": s.drainRecvlogical(t),
		} {
			slot := fmt.Sprintf("%s_%c%d", s.Config.Slot[:min(20, len(s.Config.Slot))], name[0], run)
			s.Exec(t, fmt.Sprintf(`SELECT pg_copy_logical_replication_slot('%s', '%s')`, s.Config.Slot, slot))
			c := measure(slot)
			perMillion := 1e6 / float64(*drainRows)
			t.Logf("%-15s %7.0f rows/s   client %.2f s/M   walsender %.2f s/M   %s", name,
				float64(*drainRows)/c.wall.Seconds(),
				c.client.Seconds()*perMillion, c.server.Seconds()*perMillion, c.note)
			s.Exec(t, `SELECT pg_drop_replication_slot('`+slot+`')`)
		}
	}
}

type cost struct {
	wall, client, server time.Duration
	note                 string
}

func (s *source) drainStream(t *testing.T) func(slot string) cost {
	return func(slot string) (c cost) {
		cfg := s.Config
		cfg.Slot = slot
		reads := 0
		err := Run(t.Context(), cfg, func(_ context.Context, st *Stream) error {
			st.frames.r = &countingReader{st.frames.r, &reads}
			begun, used := time.Now(), ownCPU()
			for rows := 0; rows < *drainRows; {
				m, err := st.Receive()
				if err != nil {
					return err
				}
				if m.Kind == pgoutput.KindInsert {
					rows++
				}
			}
			c = cost{
				time.Since(begun), ownCPU() - used, processCPU(t, int(st.Identity().BackendPID)),
				fmt.Sprintf("%d reads", reads),
			}
			return nil
		})
		require.NoError(t, err)
		return c
	}
}

type countingReader struct {
	r interface{ Read([]byte) (int, error) }
	n *int
}

func (c *countingReader) Read(p []byte) (int, error) {
	*c.n++
	return c.r.Read(p)
}

func (s *source) drainRecvlogical(t *testing.T) func(slot string) cost {
	return func(slot string) (c cost) {
		conn, err := s.Connect(t.Context(), s.Name)
		require.NoError(t, err)
		defer conn.Close(t.Context())
		var end string
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&end))
		cmd := exec.Command(filepath.Join(s.BinDir(), "pg_recvlogical"), "-d", s.Database.DSN, "--slot", slot,
			"--start", "-f", "/dev/null", "--no-loop", "--endpos", end,
			"-o", "proto_version=1", "-o", "publication_names="+s.Config.Publication)
		begun := time.Now()
		require.NoError(t, cmd.Start())
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		var pid int
		for pid == 0 {
			_ = conn.QueryRow(t.Context(),
				`SELECT coalesce(active_pid, 0) FROM pg_replication_slots WHERE slot_name = $1`, slot).Scan(&pid)
		}
		for running := true; running; {
			select {
			case err := <-exited:
				require.NoError(t, err)
				running = false
			case <-time.After(5 * time.Millisecond): //waits:ok the server's CPU time is sampled
				if cpu := processCPU(t, pid); cpu > 0 {
					c.server = cpu
				}
			}
		}
		c.wall = time.Since(begun)
		c.client = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return c
	}
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processCPU is the CPU time of another process so far, 0 where it has ended.
func processCPU(t *testing.T, pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
	user, err := strconv.Atoi(fields[11])
	require.NoError(t, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}
