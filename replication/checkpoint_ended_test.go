package replication

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestAnEndedCheckpointSessionIsNoShutdown: an operator ends one session, and the server goes on.
//
// Bug (stream): An ended session of the checkpoint was taken for a shutdown of the server. Cost: the stream was closed,
// and the log named a cause that was not true.
func TestAnEndedCheckpointSessionIsNoShutdown(t *testing.T) {
	src := remembering(t, testkit.Postgres(t))
	st, stop := src.following(t)
	stored := func() {
		before := src.remembered(t)
		src.insert(t)
		require.Eventually(t, func() bool { return src.remembered(t) > before }, time.Minute, 20*time.Millisecond)
	}
	stored()
	src.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'cdc-outbox checkpoint' AND datname = current_database()`)
	stored() // in another session
	select {
	case <-st.Broken():
		t.Fatal("the stream was broken")
	default:
	}
	require.NoError(t, stop())
}
