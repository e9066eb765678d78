package setup

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// Config says what the connector needs in Postgres. Setup, Ensure, Teardown and Preflight take it.
type Config struct {
	postgres.Objects

	Messages []string // prefixes of logical messages that are events
	Heals    bool     // on_gap: heal
	Snapshot bool     // list the rows that are in the tables when the slot is created, to be published once
	// PrimaryDSN leads to the primary of a hot standby; empty: what is created there is created by hand.
	PrimaryDSN string

	// Standbys are waited for before anything is published; none where it names none.
	Standbys standbys.Demand
	// Promotable are the servers that may be promoted, see standbys.Survey.
	Promotable []string

	// TableDDL creates the outbox tables, one statement or several; Setup runs it when one of Tables is missing. Empty:
	// a missing table is an error.
	TableDDL string
	// TableHint is the DDL that remedies show for a missing table where TableDDL is empty; it is never run.
	TableHint string
	// SetupNever says that the connector creates nothing automatically, so that Preflight fails where there is nothing
	// yet.
	SetupNever bool
	// Retained are the slot monitor's thresholds, which Preflight names.
	Retained Retained
	// Role is given what the connector needs and nothing more; Setup creates it when it is missing (without a
	// password). Empty: no grants.
	Role string

	// NewSlot says that the slot never existed, so Run creates it for a publication that is there already, another
	// relay's for instance. A slot that the checkpoint remembers is lost all the same.
	NewSlot bool
	// DropPublication lets Teardown drop the publication although another slot may read it.
	DropPublication bool

	// SlotWait bounds the creation of the slot, which waits for every transaction open at that moment. Default 1m; the
	// context ends it earlier.
	SlotWait time.Duration
	// ConnectTimeout bounds one connection attempt, unless the DSN has a connect_timeout. Default 10s.
	ConnectTimeout time.Duration

	Logger *zap.Logger // default: none
	// LongRow bounds a row that is read from a table, see postgres.LimitRows. Default: rows have no bound.
	LongRow int64

	// Waits receives, again and again, what a setup waits for: a *fault.Error with the remedy. Default: ignored.
	Waits func(error)

	// Outside is where the checkpoint's number is kept beside the server; nil: not looked at.
	Outside Outside

	onlyNeeded bool // see withoutExtras

	cutOver *CutOverRows // see CutOver
	// fill fills the list of a new slot, whose creation has exported the snapshot of that name; nil: with all rows.
	fill func(ctx context.Context, orders []string, exported string) error
}

// WithDefaults fills in the durations that are not set.
func (cfg Config) WithDefaults() Config {
	if cfg.SlotWait <= 0 {
		cfg.SlotWait = time.Minute
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Waits == nil {
		cfg.Waits = func(error) {}
	}
	return cfg
}

// Check refuses names that Postgres would refuse or change.
func (cfg Config) Check() error {
	if err := identifier.CheckSlotName(cfg.Slot); err != nil {
		return &fault.Error{Kind: fault.Config, Object: "slot", Err: err, Next: "Set postgres.slot to another name."}
	}
	if err := identifier.Check(cfg.Publication); err != nil {
		return &fault.Error{Kind: fault.Config, Object: "publication", Err: err, Next: "Set postgres.publication."}
	}
	for _, t := range cfg.Tables {
		for _, name := range []string{t.Schema, t.Name} {
			if err := identifier.Check(name); err != nil {
				return &fault.Error{
					Kind: fault.Config, Object: "table " + t.String(), Err: err, Next: "Set postgres.tables.",
				}
			}
		}
	}
	if err := cfg.checkSnapshotName(); err != nil {
		return err
	}
	if cfg.Role != "" {
		if err := identifier.Check(cfg.Role); err != nil {
			return &fault.Error{Kind: fault.Config, Object: "role", Err: err}
		}
	}
	return nil
}
