package service

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// TestNextFailoverFiresWhenItLasts: not while a standby restarts. Each change is logged once, and a server
// that cannot be asked has no figures.
func TestNextFailoverFiresWhenItLasts(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	log, n := zap.New(core), &nextFailover{}
	good := standbys.Forecast{Server: "a:1", Outcome: standbys.Continues, WALLag: 7}
	bad := standbys.Forecast{Server: "a:1", Outcome: standbys.Loses, Sentence: "The slot would be missing."}
	silent := standbys.Forecast{Server: "b:1", Outcome: standbys.Unknown, Sentence: "It cannot be asked."}
	fires := func() bool { return n.finding().Level == alert.Warn }

	n.take([]standbys.Forecast{good}, log)
	require.Zero(t, logs.Len())
	n.take([]standbys.Forecast{bad}, log)
	require.False(t, fires(), "once")
	require.Zero(t, logs.Len())
	n.take([]standbys.Forecast{bad}, log)
	require.True(t, fires())
	require.Equal(t, "Failover to a:1: The slot would be missing.", n.finding().Sentence)
	require.Equal(t, 1, logs.Len())
	n.take([]standbys.Forecast{good}, log)
	require.False(t, fires())
	require.Equal(t, 2, logs.Len())

	for range noAnswers {
		require.False(t, fires())
		n.take([]standbys.Forecast{good, silent}, log)
	}
	require.True(t, fires())
	require.Contains(t, n.finding().Sentence, "b:1")

	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(n))
	require.Equal(t, 3, testutil.CollectAndCount(n))
	n.take(nil, log) // the survey has failed, or the connector does not relay any more
	require.Zero(t, testutil.CollectAndCount(n))
	require.False(t, fires())
}
