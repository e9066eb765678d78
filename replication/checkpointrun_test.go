package replication

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// Where the server does not answer, attempts become rarer, up to a bound; while nothing is to be written, none is made;
// and while only a little WAL waits, the server is asked once a second whether it shuts down.
func TestCheckpointAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		confirmed, row lsn.LSN // 1000 is stored
		life           time.Duration
		want           []int // milliseconds
		fails          bool
	}{
		"events": {2000, 1500, 35 * time.Second, []int{50, 250, 650, 1450, 3050, 6250, 12650, 22650, 32650}, true},
		"idle":   {1000, 900, 30 * time.Second, nil, false},
		"a little WAL": {
			1010, 900, 4200 * time.Millisecond, []int{1050, 2050, 3050, 4050}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cp, _ := stillCheckpoint()
				begun := time.Now()
				var attempts []int
				cp.cfg.DSN = func() (string, error) {
					attempts = append(attempts, int(time.Since(begun).Milliseconds()))
					return "", errors.New("no file")
				}
				cp.cfg.Confirmed = func() lsn.LSN { return test.confirmed }
				cp.stored.Store(1000)
				s := &Stream{cfg: cp.cfg, checkpoint: cp, broken: make(chan struct{})}
				s.lastRow.Store(uint64(test.row))
				ctx, cancel := context.WithTimeout(t.Context(), test.life)
				defer cancel()
				cp.run(ctx, s)
				require.Equal(t, test.want, attempts)
				require.Equal(t, test.fails, cp.failing.Load() != nil)
			})
		})
	}
}
