package process

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProcessPeakMemory(t *testing.T) {
	big := make([]byte, 200<<20) // a process begins with its parent's peak
	for i := 0; i < len(big); i += 4096 {
		big[i] = 1
	}
	p, err := Start(Options{Binary: "/bin/sh", Args: []string{"-c", "sleep 600"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	require.Eventually(t, func() bool { return p.peak.Load() > 0 }, time.Minute, time.Millisecond, "it is watched")
	p.Kill()
	require.Positive(t, p.Usage().PeakRSS)
	require.Less(t, p.Usage().PeakRSS, int64(50<<20))
	runtime.KeepAlive(big)
}
