package replication

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// standbyRig is a primary with an outbox table and its standby, which a connector reads from.
type standbyRig struct {
	*source
	standby *pgserver.Server
	cfg     setup.Config
	log     *observer.ObservedLogs
}

// standbyVersion is the version that the tests run on, where that decodes on standbys.
func standbyVersion(t *testing.T) string {
	if testing.Short() {
		t.Skip("starts servers; run without -short")
	}
	asked := os.Getenv(pgserver.EnvVersion)
	if major, err := strconv.Atoi(asked); err == nil && major >= 16 {
		return asked
	}
	return "17"
}

func newStandby(t *testing.T, version string, onPrimary, onStandby map[string]string) *standbyRig {
	db := testkit.DedicatedPostgres(t, pgserver.Options{Version: version, Settings: onPrimary})
	db.Exec(t, `CREATE TABLE outbox (id bigint PRIMARY KEY, body text)`)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	standby, err := db.Server.Standby(ctx, "standby", false, onStandby)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the standby's log:\n%s", standby.LogTail(20))
		}
		require.NoError(t, standby.Close())
	})
	core, log := observer.New(zap.InfoLevel)
	r := &standbyRig{standby: standby, log: log, source: &source{Database: db}}
	memory := identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	r.cfg = setup.Config{Objects: postgres.Objects{
		Slot: db.Slot, Publication: db.Publication, Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		Checkpoint: memory, HotStandby: true,
	}, PrimaryDSN: db.DSN, SlotWait: time.Minute, Logger: zap.New(core)}
	r.Config = Config{
		DSN: func() (string, error) {
			return standby.DSN(db.Name), nil
		}, PrimaryDSN: func() (string, error) { return db.DSN, nil },
		Slot: db.Slot, Publication: db.Publication, Checkpoint: memory, HotStandby: true, Logger: zap.New(core),
		Confirmed: func() lsn.LSN { return lsn.LSN(r.confirmed.Load()) },
	}
	return r
}

func (r *standbyRig) dsn() string { return r.standby.DSN(r.Name) }

// slotThere reads the slot on the standby.
func (r *standbyRig) slotThere(t *testing.T) postgres.Slot { return r.slotOn(t, r.standby) }

// insertOn writes rows first to last, each in a transaction of its own.
func (r *standbyRig) insertOn(t *testing.T, s *pgserver.Server, first, last int) {
	conn, err := s.Connect(t.Context(), r.Name)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for id := first; id <= last; id++ {
		_, err := conn.Exec(t.Context(), `INSERT INTO outbox VALUES ($1, 'x')`, id)
		require.NoError(t, err)
	}
}

func numbers(first, last int) []string {
	var ids []string
	for id := first; id <= last; id++ {
		ids = append(ids, strconv.Itoa(id))
	}
	return ids
}

// awaitRow waits until the standby has a row.
func awaitRow(t *testing.T, r *standbyRig, id int) {
	conn, err := r.standby.Connect(context.Background(), r.Name)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	assert.Eventually(t, func() bool {
		var there bool
		err := conn.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM outbox WHERE id = $1)`, id).Scan(&there)
		return assert.NoError(t, err) && there
	}, time.Minute, 10*time.Millisecond)
}
