package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRestoredServerWithoutCheckpointIsRefused: where no number of writes shows that a server was put back, the last
// transaction that is known does: that of this process, and with exactly_once that of the position in Kafka. The log
// has grown past the old position meanwhile, so events of the restored server lie below it. They would be lost.
func TestRestoredServerWithoutCheckpointIsRefused(t *testing.T) {
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			b, disk, run := relayedTwenty(t, "CDC_OUTBOX_DELIVERY="+delivery, "CDC_OUTBOX_POSTGRES_CHECKPOINT=off")
			db := b.db
			require.NoError(t, run.cmd.Process.Signal(syscall.SIGSTOP))
			require.NoError(t, db.PutBack(t.Context(), disk))
			db.Exec(t, insertOrders)
			db.Exec(t, `CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)`)
			before := b.slotAt()
			require.NoError(t, run.cmd.Process.Signal(syscall.SIGCONT))
			require.Equal(t, 3, run.ended(), run.text())
			require.Contains(t, run.text(), "put back to an older state")
			require.Equal(t, before, b.slotAt(), "nothing was confirmed")
			if delivery == "exactly_once" {
				r := invoke(t, b.env, "run", "--http-listen=off")
				require.Equal(t, 3, r.code, r.all())
				require.Contains(t, r.stderr, "put back to an older state")
				require.Contains(t, r.stderr, "this connector or Kafka knows")
				require.Equal(t, before, b.slotAt(), "nothing was confirmed")
			}
			require.Len(t, b.records("orders.events", 20), 20, "nothing was published")
			r := invoke(t, b.env, "slot", "accept")
			require.Equal(t, 0, r.code, r.all())
			run = start(t, b.env)
			run.awaitReady(200)
			require.Len(t, b.records("orders.events", 40), 40)
			require.Equal(t, 0, run.stop(syscall.SIGTERM))
		})
	}
}
