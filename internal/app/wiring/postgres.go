package wiring

import (
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/decision"
)

// searched are the columns by which rows are searched in SQL; an unsuitable one is empty.
func searched(c *config.Loaded) config.Columns {
	col := c.Router.Roles()
	derived := routing.Expressions(c)
	for _, name := range []*string{&col.AggregateType, &col.AggregateID} {
		if _, ok := derived[*name]; ok {
			*name = ""
		}
	}
	if c.Router.TimestampUnit != "" {
		col.Timestamp = ""
	}
	return col
}

// Admin takes from the configuration the objects that Postgres has to hold.
func Admin(c *config.Loaded, table bool) (setup.Config, error) {
	col := searched(c)
	cfg := setup.Config{Snapshot: c.Postgres.Snapshot == "initial", Heals: c.OnGap == config.OnGapHeal}
	cfg.Objects = postgres.Objects{
		Slot: c.Postgres.Slot, Publication: c.Postgres.Publication, Failover: c.Postgres.Failover,
		HotStandby: c.Postgres.HotStandby,
		Columns: postgres.Columns{
			ID: col.ID, AggregateType: col.AggregateType, AggregateID: col.AggregateID, Timestamp: col.Timestamp,
		},
	}
	cfg.Messages, cfg.LongRow = c.Postgres.Messages, int64(c.Window.Row)
	cfg.Promotable = c.Postgres.Standbys
	cfg.Standbys = standbys.Demand{Names: c.Postgres.WaitForStandbys, Count: c.Postgres.WaitForStandbysCount}
	for _, n := range routing.Needs(c) {
		cfg.Columns.Needed = append(cfg.Columns.Needed, postgres.NeededColumn{
			Name: n.Column, Key: n.Key, Role: n.Role, Required: n.Required, Usual: n.Usual,
		})
	}
	if c.Postgres.PrimaryDSN.IsSet() {
		var err error
		if cfg.PrimaryDSN, err = routing.PrimaryDSN(c)(); err != nil {
			return cfg, &fault.Error{Kind: fault.Config, Object: "postgres.primary_dsn", Err: err}
		}
	}
	if name := c.Postgres.CheckpointTable(); name != "" {
		var err error
		if cfg.Checkpoint, err = identifier.ParseTable(name); err != nil {
			return cfg, &fault.Error{Kind: fault.Config, Object: "postgres.checkpoint", Err: err}
		}
	}
	if name := c.Postgres.DecisionsTable(); name != "" {
		var err error
		if cfg.Decisions, err = identifier.ParseTable(name); err != nil {
			return cfg, &fault.Error{Kind: fault.Config, Object: "postgres.decisions", Err: err}
		}
	}
	for _, name := range c.Postgres.OutboxTables() {
		t, err := identifier.ParseTable(name)
		if err != nil {
			return cfg, &fault.Error{Kind: fault.Config, Object: "postgres.tables", Err: err}
		}
		cfg.Tables = append(cfg.Tables, t)
	}
	hint, err := tableDDL(c, cfg)
	if err != nil {
		if table {
			return cfg, err
		}
		return cfg, nil
	}
	cfg.TableHint = hint
	if table {
		cfg.TableDDL = cfg.TableHint
	}
	return cfg, nil
}

// DSN reads the connection string, empty for the PG* variables.
func DSN(c *config.Loaded) (string, error) {
	dsn, err := routing.DSN(c)()
	if err != nil {
		return "", &fault.Error{Kind: fault.Config, Object: "postgres.dsn", Err: err}
	}
	return dsn, nil
}

// Target is the database that a command works on, and the objects that it has to hold.
type Target struct {
	DSN   string
	Admin setup.Config
}

// NewTarget takes both from the configuration.
func NewTarget(c *config.Loaded) (s Target, err error) {
	if s.DSN, err = DSN(c); err != nil {
		return s, err
	}
	s.Admin, err = Admin(c, false)
	return s, err
}

// Decisions is the table of the operators' decisions about the relay, with its DSN.
func Decisions(c *config.Loaded) decision.Desk {
	d := decision.Desk{DSN: routing.DSN(c), Table: decision.Table{Relay: relayName(c)}}
	if c.Postgres.HotStandby {
		d.DSN = routing.PrimaryDSN(c) // the slot's server cannot be written
	}
	name := c.Postgres.DecisionsTable()
	if name != "" && (!c.Postgres.HotStandby || c.Postgres.PrimaryDSN.IsSet()) {
		d.Table.Name, _ = identifier.ParseTable(name) // Admin reports one that cannot be read
	}
	return d
}

// Gaps is the table of the gaps in the stream, with its DSN.
func Gaps(c *config.Loaded) gap.Desk {
	d := gap.Desk{DSN: routing.DSN(c)}
	if c.Postgres.HotStandby {
		d.DSN = routing.PrimaryDSN(c) // the slot's server cannot be written
	}
	cfg, err := Admin(c, false)
	if err == nil && c.Source != config.SourcePolling && (!c.Postgres.HotStandby || c.Postgres.PrimaryDSN.IsSet()) {
		d.Table = gap.Of(cfg.Objects)
	}
	return d
}

// relayName is the relay's name in the tables of the last word and of the decisions: its slot's, or with source:
// polling, a name that no slot can have, with the outbox tables.
func relayName(c *config.Loaded) string {
	if c.Source == config.SourcePolling {
		return decision.PollingRelay + " " + strings.Join(c.Postgres.OutboxTables(), ", ")
	}
	return c.Postgres.Slot
}

// LastWord is the row in which a relay keeps why it ended: the slot's checkpoint, or with source: polling, a row of its
// own in the same table.
func LastWord(c *config.Loaded) lastword.Place {
	p := lastword.Place{
		DSN: routing.DSN(c), Slot: relayName(c), Own: c.Source == config.SourcePolling,
	}
	if c.Postgres.HotStandby {
		p.DSN = routing.PrimaryDSN(c) // the slot's server cannot be written
	}
	if name := c.Postgres.CheckpointTable(); name != "" && (!c.Postgres.HotStandby || c.Postgres.PrimaryDSN.IsSet()) {
		p.Table, _ = identifier.ParseTable(name) // Admin reports one that cannot be read
	}
	return p
}
