package replication

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Temporary reads a publication through a temporary slot, for an operator who looks on: from now on, over one
// connection, without a checkpoint. The server drops the slot with the session (Postgres docs 55.4,
// CREATE_REPLICATION_SLOT), so nothing is left and no other slot moves.
type Temporary struct {
	DSN         string
	Publication string
	Messages    bool                          // logical messages, too
	Ready       func(slot string)             // the slot exists: transactions that commit from now on are read
	Take        func(*pgoutput.Message) error // the message is valid until it returns

	conn    *pgconn.PgConn
	decoder pgoutput.Decoder
	message pgoutput.Message
	open    bool    // within a transaction
	flushed lsn.LSN // WAL up to here may be removed
}

// temporaryStatus is how often the server learns how far a temporary stream has got: well within wal_sender_timeout.
const temporaryStatus = 5 * time.Second

// Run reads until ctx ends, which is not an error, or the stream breaks. Creating the slot waits for the transactions
// that are open.
func (t *Temporary) Run(ctx context.Context) error {
	parsed, err := postgres.ParseConfig(t.DSN)
	if err != nil {
		return postgres.DSNFault(t.DSN)
	}
	pc := &parsed.Config
	if pc.ConnectTimeout == 0 {
		pc.ConnectTimeout = 10 * time.Second
	}
	session.SetStreamParams(pc, "preview")
	if t.conn, err = pgconn.ConnectConfig(ctx, pc); err != nil {
		return postgres.ConnectFault(parsed, err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = t.conn.Close(bye) // the slot goes with the session in any case
	}()
	if err = t.start(ctx); err == nil {
		err = t.receive(ctx)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return t.judged(err)
}

func (t *Temporary) start(ctx context.Context) error {
	slot := "cdc_outbox_preview_" + strings.ToLower(rand.Text()[:8])
	_, err := pglogrepl.CreateReplicationSlot(ctx, t.conn, slot, "pgoutput", pglogrepl.CreateReplicationSlotOptions{
		Temporary: true, SnapshotAction: "NOEXPORT_SNAPSHOT", Mode: pglogrepl.LogicalReplication,
	})
	if err != nil {
		return err
	}
	err = pglogrepl.StartReplication(ctx, t.conn, slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: pluginOptions(t.Publication, t.Messages),
	})
	if err == nil {
		t.Ready(slot)
	}
	return err
}

// receive takes messages, and reports on a timer how far they have got.
func (t *Temporary) receive(ctx context.Context) error {
	next := time.Now().Add(temporaryStatus)
	for {
		limited, cancel := context.WithDeadline(ctx, next)
		raw, err := t.conn.ReceiveMessage(limited)
		cancel()
		switch {
		case err == nil:
			if err := t.handleMessage(raw); err != nil {
				return err
			}
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		}
		if !time.Now().Before(next) {
			if err := t.status(ctx); err != nil {
				return err
			}
			next = time.Now().Add(temporaryStatus)
		}
	}
}

func (t *Temporary) status(ctx context.Context) error {
	at := pglogrepl.LSN(t.flushed)
	return pglogrepl.SendStandbyStatusUpdate(ctx, t.conn, pglogrepl.StandbyStatusUpdate{
		WALWritePosition: at, WALFlushPosition: at, WALApplyPosition: at,
	})
}

func (t *Temporary) handleMessage(raw pgproto3.BackendMessage) error {
	switch m := raw.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return errors.New("the server ended the stream")
	case *pgproto3.CopyData:
		if len(m.Data) == 0 {
			return nil
		}
		switch m.Data[0] {
		case pglogrepl.PrimaryKeepaliveMessageByteID:
			k, err := pglogrepl.ParsePrimaryKeepaliveMessage(m.Data[1:])
			if err == nil && !t.open { // between two transactions nothing before it is still to come
				t.flushed = max(t.flushed, lsn.LSN(k.ServerWALEnd))
			}
			return err
		case pglogrepl.XLogDataByteID:
			x, err := pglogrepl.ParseXLogData(m.Data[1:])
			if err != nil {
				return err
			}
			return t.decode(x)
		}
	}
	return nil
}

func (t *Temporary) decode(x pglogrepl.XLogData) error {
	m := &t.message
	if err := t.decoder.Decode(m, lsn.LSN(x.WALStart), x.WALData); err != nil {
		return &fault.Error{Kind: fault.Fatal, Object: "stream", Err: err}
	}
	switch m.Kind {
	case pgoutput.KindBegin:
		t.open = true
	case pgoutput.KindCommit:
		t.open, t.flushed = false, m.Commit.EndLSN
	}
	return t.Take(m)
}

func (t *Temporary) judged(err error) error {
	if err == nil {
		return nil
	}
	judged := postgres.QueryFault("publication "+identifier.Quote(t.Publication), err)
	var f *fault.Error
	if errors.As(judged, &f) && f.Remedy().IsZero() {
		f.With(fault.Do("See what the server lacks.", "cdc-outbox check"))
	}
	return judged
}
