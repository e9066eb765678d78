package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/nearest"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// SlotReport is everything about the slot that an operator who has to decide about it may want to know.
type SlotReport struct {
	Slot               string     `json:"slot"`
	Exists             bool       `json:"exists"`
	Plugin             string     `json:"plugin,omitempty"`
	Database           string     `json:"database,omitempty"`
	ReadBy             string     `json:"read_by,omitempty"` // the session, empty where no session reads
	RestartLSN         string     `json:"restart_lsn,omitempty"`
	ConfirmedFlushLSN  string     `json:"confirmed_flush_lsn,omitempty"`
	WALStatus          string     `json:"wal_status,omitempty"`
	InvalidationReason string     `json:"invalidation_reason,omitempty"`
	InactiveSince      *time.Time `json:"inactive_since,omitempty"` // from the server, 17+
	Failover           bool       `json:"failover"`
	Synced             bool       `json:"synced"`

	SystemID       string         `json:"system_id"`
	Timeline       int32          `json:"timeline"`
	ServerVersion  string         `json:"server_version"`
	InRecovery     bool           `json:"in_recovery"`
	CurrentLSN     string         `json:"current_lsn"`
	Remembered     string         `json:"remembered_lsn,omitempty"` // what postgres.checkpoint has of it
	RememberedID   string         `json:"remembered_system_id,omitempty"`
	RememberedLine int32          `json:"remembered_timeline,omitempty"`
	RememberedAt   *time.Time     `json:"remembered_at,omitempty"`     // when that was last written
	Writes         int64          `json:"remembered_writes,omitempty"` // how often that was written
	Kept           *Kept          `json:"kept,omitempty"`              // what Kafka has of it
	KeptError      string         `json:"kept_error,omitempty"`        // why that is unknown
	Verdict        string         `json:"verdict"`                     // a sentence
	Next           string         `json:"next,omitempty"`              // what keeps a usable slot usable
	Commands       []string       `json:"commands,omitempty"`
	LastWord       *lastword.Word `json:"last_word,omitempty"` // of a connector that ended on an error
	Open           []string       `json:"open_transactions"`   // that hold back restart_lsn, oldest first

	info    postgres.Slot
	foreign error // it cannot be this connector's, so nothing may change it
	problem error // why the connector would not go on from it
	denied  error // the role may not use the checkpoint's table
	others  []string

	unchanged bool
}

// Problem is why the connector would not go on from the slot, with the next step; nil where it would.
func (r *SlotReport) Problem() error { return r.problem }

// BeingRead refuses to change a slot that a session reads.
func (cfg Config) BeingRead(by string) error {
	return &fault.Error{
		Kind: fault.Operator, Object: cfg.SlotSubject(), Err: fmt.Errorf("it is being read by %s", by),
		Next: "Stop the connector first, and its standbys.",
	}
}

// UnreadSince says since when no session reads the slot; empty where a session does, and where there is no slot.
func (r *SlotReport) UnreadSince() string {
	switch {
	case !r.Exists || r.ReadBy != "" || r.Synced && r.InRecovery:
		return ""
	case r.InactiveSince != nil:
		return human.Time(*r.InactiveSince)
	case r.RememberedAt != nil:
		return "not known; last confirmed at " + human.Time(*r.RememberedAt)
	}
	return "not known"
}

// Foreign is why the slot cannot be this connector's, so that nothing may change it; nil where it can.
func (r *SlotReport) Foreign() error { return r.foreign }

// ReportSlot reads it all. A slot that does not exist is not an error.
func ReportSlot(ctx context.Context, dsn string, cfg Config) (r SlotReport, err error) {
	cfg = cfg.WithDefaults()
	err = withServers(ctx, dsn, cfg, func(s servers) error {
		r, err = reportSlot(ctx, s, cfg)
		return err
	})
	return r, err
}

// ReportUnread is ReportSlot for a slot that is to be changed. The session of a connector that has ended on an error
// lasts until the server notices, so it is waited for.
func ReportUnread(ctx context.Context, dsn string, cfg Config) (r SlotReport, err error) {
	cfg = cfg.WithDefaults()
	err = withServers(ctx, dsn, cfg, func(s servers) error {
		r, err = reportUnread(ctx, s, cfg)
		return err
	})
	return r, err
}

// readerEnds is how long a session may take to end after its client.
const readerEnds = 2 * time.Second

func reportUnread(ctx context.Context, s servers, cfg Config) (SlotReport, error) {
	for began := time.Now(); ; {
		r, err := reportSlot(ctx, s, cfg)
		if err != nil || r.ReadBy == "" || r.foreign != nil || time.Since(began) >= readerEnds {
			return r, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(readerEnds / 20):
		}
	}
}

func reportSlot(ctx context.Context, servers servers, cfg Config) (SlotReport, error) {
	conn := servers.Conn
	r := SlotReport{Slot: cfg.Slot, Open: []string{}}
	st, err := servers.readStateUnlessLocked(ctx, cfg)
	if err != nil {
		return r, postgres.QueryFault("catalog", err)
	}
	at, err := postgres.LookupServerPosition(ctx, conn)
	if err != nil {
		return r, postgres.QueryFault("server", err)
	}
	r.SystemID, r.Timeline, r.CurrentLSN = at.SystemID, at.Timeline, at.WALEnd.String()
	s := st.Slot
	r.info, r.Exists, r.ServerVersion, r.InRecovery = s, s.Exists, st.Server.VersionText, st.Server.InRecovery
	if !s.Exists {
		r.others, err = slotNames(ctx, conn)
		if err != nil {
			return r, postgres.QueryFault("slots", err)
		}
	} else {
		r.Plugin, r.Database, r.WALStatus, r.InvalidationReason, r.Failover, r.Synced = s.Plugin, s.Database,
			s.WALStatus, s.InvalidationReason, s.Failover, s.Synced
		r.RestartLSN, r.ConfirmedFlushLSN, r.ReadBy = s.RestartLSN.String(), s.ConfirmedFlush.String(),
			slotReader(ctx, conn, s.ActivePID)
		if !s.InactiveSince.IsZero() {
			r.InactiveSince = &s.InactiveSince
		}
	}
	r.foreign = preflight.FirstFailure(cfg.ForeignSlot(st.Slot, st.Server.ServerFacts))
	if st.Checkpoint.Usable {
		err := conn.QueryRow(ctx,
			fmt.Sprintf(`SELECT position::text, system_id, timeline, coalesce(to_jsonb(m)->>'writes', '0')::bigint
				FROM %s m WHERE slot = $1::text`, cfg.Checkpoint.SQL()), cfg.Slot).
			Scan(&r.Remembered, &r.RememberedID, &r.RememberedLine, &r.Writes)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return r, postgres.QueryFault("table "+cfg.Checkpoint.String(), err)
		}
	}
	r.RememberedAt, r.denied = st.Checkpoint.Confirmed, checkpointDenied(cfg, st)
	if w := st.Checkpoint.Word; w.Current() && s.ActivePID == 0 {
		r.LastWord = w
	}
	servers.peek(ctx, cfg, &st)
	open, err := servers.openTransactions(ctx, 5)
	if err != nil {
		return r, postgres.QueryFault("open transactions", err)
	}
	for _, t := range open {
		r.Open = append(r.Open, t.String())
	}
	if s.Exists && r.foreign == nil {
		r.lookupKept(ctx, cfg)
	}
	r.Verdict = r.judge(cfg, st)
	if st.runsOut() && r.problem == nil {
		warning := runningOut(cfg, st)
		r.Verdict += ", and about to be lost by max_slot_wal_keep_size"
		r.Next, r.Commands = warning.Remedy, warning.Commands
	}
	return r, nil
}

// judge says in a sentence whether the connector would go on from this slot.
func (r *SlotReport) judge(cfg Config, st state) string {
	if !r.Exists {
		r.problem = r.missing(cfg)
		return "there is no slot of this name"
	}
	if err := preflight.FirstFailure(orHeal(cfg, st, checkSlot(cfg, st))); err != nil {
		r.problem = err
		what, _ := fault.Split(err)
		return what
	}
	if r.denied != nil {
		r.problem = r.denied
		return "usable, but what is remembered of it may not be used: " + r.denied.Error()
	}
	if r.Remembered == "" {
		return "usable; nothing is remembered of it"
	}
	kept, err := lsn.Parse(r.Remembered)
	if err != nil {
		return "usable; what is remembered of it cannot be read"
	}
	at := postgres.ServerPosition{SystemID: r.SystemID, Timeline: r.Timeline}
	at.WALEnd, _ = lsn.Parse(r.CurrentLSN) // 0 where there is none: not judged by it
	stored := postgres.Checkpoint{
		SystemID: r.RememberedID, Timeline: r.RememberedLine, Position: kept, Writes: r.Writes,
	}
	err = stored.Judge(cfg.Objects, at, r.info)
	if err == nil && r.Kept != nil && r.Kept.Timeline == r.Timeline { // on another one its history would be needed
		_, err = r.Kept.Judge(cfg.Objects, "Kafka", postgres.MarkedServer{
			ServerPosition: at, InRecovery: r.InRecovery, HotStandby: cfg.HotStandby, Version: st.Server.Version,
			Slot: r.info, Row: &stored,
		})
	}
	if err != nil {
		r.problem = err
		what, _ := fault.Split(err)
		return what
	}
	return "usable, and where it was left"
}

// missing names the slot that was probably meant: where the checkpoint does not know the name, it is likelier mistyped
// than that of a slot that was dropped.
func (r *SlotReport) missing(cfg Config) error {
	e := &fault.Error{Kind: fault.Operator, Object: cfg.SlotSubject(), Err: errors.New("it does not exist")}
	if near := nearest.Name(cfg.Slot, r.others); near != "" && r.RememberedAt == nil {
		return e.With(DidYouMean("slot", near))
	}
	return e.With(fault.Do("See what its loss means.", "cdc-outbox check"))
}

// CountSkipped decodes what lies between the slot's position and lsn, and returns how many events that is. Nothing
// moves. It takes a slot that no session reads; a limit on ctx is wise.
func CountSkipped(ctx context.Context, dsn string, cfg Config, position string) (n int64, err error) {
	cfg = cfg.WithDefaults()
	err = withAdminConn(ctx, dsn, cfg, func(conn *pgx.Conn) error {
		// An Insert message begins with the letter I (Postgres docs 55.9).
		err := conn.QueryRow(ctx,
			`SELECT count(*) FROM pg_catalog.pg_logical_slot_peek_binary_changes($1::name, $2::pg_lsn, NULL,
			'proto_version', '1',
				'publication_names', $3::text)
			WHERE get_byte(data, 0) = ascii('I')`, cfg.Slot, position, identifier.Quote(cfg.Publication)).Scan(&n)
		if err != nil {
			return postgres.QueryFault(cfg.SlotSubject(), err)
		}
		return nil
	})
	return n, err
}

// AdvanceSlot moves the slot forward over events that are then never published.
func AdvanceSlot(ctx context.Context, dsn string, cfg Config, position string) (SlotReport, error) {
	return changeSlot(ctx, dsn, cfg, gap.SlotAdvanced, func(conn servers, r SlotReport) error {
		to, err := lsn.Parse(position)
		if err != nil || strings.TrimSpace(position) != to.String() {
			return &fault.Error{
				Kind: fault.Config, Object: "--to", Err: fmt.Errorf("%q is not an LSN", position),
				Next: "Write it as Postgres prints it, 0/16B3748.",
			}
		}
		if to <= r.info.ConfirmedFlush {
			return &fault.Error{
				Kind: fault.Config, Object: "--to",
				Err: fmt.Errorf("the slot is at %s already, and slots do not go back", r.ConfirmedFlushLSN),
			}
		}
		_, err = conn.Exec(ctx, `SELECT pg_catalog.pg_replication_slot_advance($1::name, $2::pg_lsn)`, cfg.Slot,
			to.String())
		return err
	})
}

// RecreateSlot drops the slot where there is one and creates it again, from now on.
func RecreateSlot(ctx context.Context, dsn string, cfg Config) (SlotReport, error) {
	cfg = cfg.WithDefaults()
	return changeSlot(ctx, dsn, cfg, gap.SlotRecreated, func(conn servers, _ SlotReport) error {
		pub, err := postgres.LookupPublication(ctx, conn, cfg.Publication)
		if err != nil {
			return err
		}
		if !pub.Exists {
			if err := createPublication(ctx, conn, cfg); err != nil {
				return err
			}
		}
		if err := conn.dropSlot(ctx, cfg); err != nil {
			return err
		}
		return createSlot(ctx, conn, cfg, cfg.SlotDDL())
	})
}

// dropSlot drops the slot if there is one.
func (s servers) dropSlot(ctx context.Context, cfg Config) error {
	_, err := s.Exec(ctx, `SELECT pg_catalog.pg_drop_replication_slot(slot_name)
		FROM pg_catalog.pg_replication_slots WHERE slot_name = $1::text`, cfg.Slot)
	return err
}

// createPublication comes before the slot, which cannot read what was written before its publication.
func createPublication(ctx context.Context, conn servers, cfg Config) error {
	st, err := conn.readStateUnlessLocked(ctx, cfg)
	if err != nil {
		return err
	}
	sql := cfg.PublicationDDL(st.anyPartitioned())
	err = errors.New("it does not exist, and a slot cannot read what was written before its publication")
	if conn.primary == conn.Conn {
		_, err = conn.Exec(ctx, sql)
	}
	if err != nil {
		return &fault.Error{
			Kind: fault.Operator, Object: cfg.PublicationSubject(), Err: err, Next: "Create it.",
			Commands: []string{sql},
		}
	}
	return nil
}

// changeSlot changes a slot that no session reads, and remembers its position afterwards.
func changeSlot(ctx context.Context, dsn string, cfg Config, cause string,
	change func(servers, SlotReport) error,
) (r SlotReport, err error) {
	cfg = cfg.WithDefaults()
	err = withServers(ctx, dsn, cfg, func(conn servers) error {
		if r, err = reportUnread(ctx, conn, cfg); err != nil {
			return err
		}
		if r.foreign != nil {
			return r.foreign
		}
		if r.ReadBy != "" {
			return cfg.BeingRead(r.ReadBy)
		}
		if r.denied != nil {
			return r.denied // the change would be made, and not remembered
		}
		before := r
		if err := change(conn, r); errors.Is(err, errUnchanged) {
			r.unchanged = true
			return nil
		} else if err != nil {
			return postgres.QueryFault(cfg.SlotSubject(), err)
		}
		if r, err = reportSlot(ctx, conn, cfg); err != nil {
			return err
		}
		if !r.Exists {
			return &fault.Error{
				Kind: fault.Operator, Object: cfg.SlotSubject(), Err: errors.New("it does not exist"),
				Next: "Create it.", Commands: []string{"cdc-outbox slot recreate"},
			}
		}
		if cfg.Checkpoint.Name == "" {
			_, err := r.acceptKept(ctx, cfg)
			return err
		}
		if conn.primary == nil {
			return &fault.Error{
				Kind: fault.Config, Object: "postgres.primary_dsn",
				Err:  errors.New("it is not set, and a standby cannot be written"),
				Next: "Set it, or postgres.checkpoint to off.",
			}
		}
		if err := openGap(ctx, conn.primary, cfg, before, r, cause); err != nil {
			return err // before the position is accepted: until then the connector refuses the slot
		}
		if err := r.accept(ctx, conn.primary, cfg); err != nil {
			return err
		}
		if err := conn.awaitReplay(ctx, cfg); err != nil {
			return err
		}
		r, err = reportSlot(ctx, conn, cfg)
		return err
	})
	return r, err
}
