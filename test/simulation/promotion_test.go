package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAStreamThatVanishesWhileATransactionWaits: nothing arrives any more on the connections. While a transaction
// waits for the standby nothing is read from the stream, so nothing but the gate can notice.
//
// Bug (standbys): While a transaction waited for standbys, nothing noticed that the server was silent: the stream
// watches for that only while it is read from, and a proxy keeps its connection alive. Cost: nothing was published
// until a restart.
func TestAStreamThatVanishesWhileATransactionWaits(t *testing.T) {
	res := simulate(t, &Plan{
		Seed: 1, Instances: 1, Brokers: 1, Version: 170007, Window: 1000, RequestTime: 2 * time.Second, Stale: true,
		Lag: 400 * time.Millisecond, CopyTime: 200 * time.Millisecond, Gate: standbyName,
		Steps: []Step{
			{At: time.Second, Kind: Commit, A: 1, B: 3},
			{At: 3 * time.Second, Kind: Commit, A: 1, B: 3},
			{At: 3*time.Second + 200*time.Millisecond, Kind: LoseStream},
			{At: 6 * time.Second, Kind: Commit, A: 1, B: 3},
		},
	}, false)
	require.Empty(t, res.Problems)
}

// TestALockedCheckpointAfterAFailover: the first stream on the promoted server ends before it begins, since the
// checkpoint's table is locked. What was confirmed on the server before is still no position of the new one.
//
// Bug (standbys): After a failover that lost transactions, a first connection that failed before the stream began (the
// checkpoint's table was locked) made the next one take the position confirmed on the old server for one of the new
// server. Cost: a halt with exit 3 and a false reason.
func TestALockedCheckpointAfterAFailover(t *testing.T) {
	res := simulate(t, &Plan{
		Seed: 1, Instances: 1, Brokers: 1, Version: 170007, Window: 1000, RequestTime: 2 * time.Second, Stale: true,
		Lag: 40 * time.Millisecond, CopyTime: 200 * time.Millisecond,
		Steps: []Step{
			{At: time.Second, Kind: Commit, A: 1, B: 3},
			{At: 3 * time.Second, Kind: DetachStandby, For: 4 * time.Second},
			{At: 4 * time.Second, Kind: Commit, A: 3, B: 60},
			{At: 6 * time.Second, Kind: LockTable, For: 15 * time.Second},
			{At: 6500 * time.Millisecond, Kind: Promote, For: time.Second},
			{At: 30 * time.Second, Kind: Commit, A: 1, B: 1},
		},
	}, false)
	require.Empty(t, res.Problems)
}
