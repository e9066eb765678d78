package replication

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
)

func TestErrors_every_SQLSTATE_has_a_kind(t *testing.T) {
	tests := map[string]fault.Kind{
		"08006": fault.Retry, "57P01": fault.Retry, "57P02": fault.Retry, "57P03": fault.Retry, "57014": fault.Retry,
		"53300": fault.Retry, "53100": fault.Retry, "53200": fault.Retry, "40001": fault.Retry, "58030": fault.Retry,
		"55006": fault.Retry, "55P03": fault.Retry, "XX000": fault.Retry,
		"55000": fault.Operator, "42704": fault.Operator, "42501": fault.Operator, "28P01": fault.Operator, "28000": fault.Operator,
		"3D000": fault.Operator, "58P01": fault.Operator, "0A000": fault.Operator, "22023": fault.Operator, "42601": fault.Operator, "54000": fault.Operator,
		"42602": fault.Config,
		"XX001": fault.Fatal, "ZZZZZ": fault.Fatal, "": fault.Fatal,
	}
	for code, kind := range tests {
		require.Equal(t, kind, findRule(code).kind, code)
	}
}

func TestErrors_publication_missing_where_the_rows_were_written(t *testing.T) {
	c := &Config{Slot: "s", Publication: `my "pub"`}
	err := c.serverError(duringStream, 100, &pgconn.PgError{
		Code: "42704", Message: `publication "my "pub"" does not exist`,
		Where: `slot "s", output plugin "pgoutput", in the change callback, associated LSN 0/16B3748`,
	})
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, `slot "s" at 0/16B3748: publication`)
	require.ErrorContains(t, err, `"my ""pub"""`)
	require.ErrorContains(t, err, "pg_drop_replication_slot('s')")
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
}

// TestErrors_before_the_slot_is_touched_nobody_is_told_to_drop_it: an unknown parameter in the DSN has the SQLSTATE of a
// missing publication, and whoever follows the latter's remedy loses events.
func TestErrors_before_the_slot_is_touched_nobody_is_told_to_drop_it(t *testing.T) {
	c := &Config{Slot: "s", Publication: "p", Confirmed: nothingConfirmed, DSN: func() (string, error) { return "", nil }}
	for _, code := range []string{"42704", "55000", "58P01", "42501", "28000"} {
		refused := &pgconn.PgError{Code: code, Message: "no"}
		require.NotContains(t, c.connectError(&pgconn.Config{}, refused, false).Error(), "drop", code)
		require.NotContains(t, c.serverError(duringQuery, 0, refused).Error(), "drop", code)
	}
	require.ErrorContains(t, c.connectError(&pgconn.Config{}, &pgconn.PgError{Code: "42704"}, false), "parameter")
	require.ErrorContains(t, c.connectError(&pgconn.Config{}, &pgconn.PgError{Code: "28000"}, false), "pg_hba.conf")
}

// TestErrors_same_text_wherever_the_fault_is_met: check, the start and the stream say the same of a slot.
func TestErrors_same_text_wherever_the_fault_is_met(t *testing.T) {
	cfg, st := planConfig(), setUpState()
	c := &Config{Slot: cfg.Slot, Publication: cfg.Publication, Tables: cfg.Tables, Confirmed: nothingConfirmed}
	next := func(err error) string {
		var f *fault.Error
		require.ErrorAs(t, err, &f)
		return f.Next
	}
	require.Equal(t, slotGone(cfg, setupState{}).Remedy, next(c.slotMissing(Identity{})))
	st.Slot.WALStatus = WALLost
	require.Equal(t, next(firstFailure(setupVerdict(cfg, st))), next(c.checkSlot(st.Slot, Identity{Database: "db"})))
	require.Equal(t, slotInvalidated(cfg, st).Remedy, c.remedy(duringStream, "58P01"))
	require.Contains(t, c.remedy(duringStream, "42704"), publicationLost(cfg, st).Remedy)
}

// TestErrors_remedies_can_be_pasted: prose stands on comment lines of its own beside SQL.
func TestErrors_remedies_can_be_pasted(t *testing.T) {
	c := &Config{Slot: "s", Publication: "p", Tables: planConfig().Tables, Confirmed: nothingConfirmed,
		DSN: func() (string, error) { return "postgres://it@h/d", nil }}
	require.Regexp(t, "^ALTER ROLE \"it\" REPLICATION;\n-- [^\n]*`cdc-outbox check` knows$", c.remedy(duringStart, "42501"))
	st := setUpState()
	st.Server.WALLevel, st.Server.UsedSlots, st.Server.UsedSenders, st.Server.SlotWALKeepMB = "replica", 10, 10, -1
	var remedies []string
	for _, f := range slices.Concat(checkServer(planConfig(), st), checkSlotRoom(st), checkSenderRoom(st), []preflight.Finding{checkWALLimit(AdminConfig{}, st)}) {
		if f.Remedy != "" {
			remedies = append(remedies, f.Remedy)
		}
	}
	require.Len(t, remedies, 4)
	for _, code := range []string{"42704", "58P01"} {
		remedies = append(remedies, c.remedy(duringStream, code))
	}
	for _, remedy := range remedies {
		require.Contains(t, remedy, ";")
		for line := range strings.SplitSeq(remedy, "\n") {
			if !strings.HasPrefix(line, "-- ") {
				require.Regexp(t, `^(SELECT|ALTER|CREATE|BEGIN|COMMIT)[^;]*;$`, line)
			}
		}
	}
}

// TestErrors_one_sentence: pgconn lists an attempt with TLS and one without, on two lines.
func TestErrors_one_sentence(t *testing.T) {
	for _, dsn := range []string{"postgres://u@127.0.0.1:1/d", "postgres://u@127.0.0.1:1,127.0.0.1:2/d"} {
		err := Ensure(t.Context(), dsn, planConfig(), false)
		require.ErrorContains(t, err, "127.0.0.1:1")
		require.NotContains(t, err.Error(), "\n")
		require.Equal(t, 1, strings.Count(err.Error(), "dial tcp 127.0.0.1:1:"), err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(conn, make([]byte, 8)) // SSLRequest
		_, _ = conn.Write([]byte("N"))
		_ = conn.Close()
	}()
	require.ErrorContains(t, Ensure(t.Context(), "postgres://u@"+listener.Addr().String()+"/d?sslmode=require", planConfig(), false), "The server has no TLS: set ssl = on there")
}

func TestErrors_detail_is_shown_unless_it_may_hold_a_row(t *testing.T) {
	c := &Config{Slot: "s"}
	require.ErrorContains(t, c.serverError(duringStream, 0, &pgconn.PgError{Code: "55000", Message: "cannot read", Detail: "It was invalidated."}), "(It was invalidated.)")
	c.Tables = []identifier.Table{{Schema: "public", Name: "outbox"}}
	for _, code := range []string{"22P05", "22021"} {
		err := c.serverError(duringStream, 0, &pgconn.PgError{Code: code, Message: "no such character", Detail: "payload", Where: "slot \"s\", in the change callback, associated LSN 0/ABC"})
		require.NotContains(t, err.Error(), "payload")
		requireOperator(t, err, "at 0/ABC", "table public.outbox", "cdc-outbox slot advance", "cdc-outbox repair")
	}
}

func TestErrors_slot_held(t *testing.T) {
	c := &Config{Slot: "s", Confirmed: func() lsn.LSN { return 0 }}
	err := c.serverError(duringStart, 0, &pgconn.PgError{Code: "55006", Message: `replication slot "s" is active for PID 4711`})
	var held *slotHeld
	require.ErrorAs(t, err, &held)
	require.Equal(t, 4711, held.pid)
	require.EqualError(t, err, `slot "s": the session with PID 4711 reads from it`)
}

func TestConfig_check(t *testing.T) {
	good := Config{DSN: func() (string, error) { return "", nil }, Slot: "s", Publication: "p", Confirmed: nothingConfirmed}
	_, err := good.check()
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Config){
		"slot":         func(c *Config) { c.Slot = "a b" },
		"publication":  func(c *Config) { c.Publication = "" },
		"no DSN":       func(c *Config) { c.DSN = nil },
		"no Confirmed": func(c *Config) { c.Confirmed = nil },
	} {
		cfg := good
		spoil(&cfg)
		_, err := cfg.check()
		require.Equal(t, fault.Config, fault.KindOf(err), name)
	}
}
