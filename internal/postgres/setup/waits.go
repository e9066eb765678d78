package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// tellOpen says which transactions the creation of the slot is going to wait for.
func (s servers) tellOpen(ctx context.Context, cfg Config) {
	open, err := s.openTransactions(ctx, 3)
	if err != nil || len(open) == 0 {
		return
	}
	next := fault.Do("This is about the oldest.").Then(open[0].remedy())
	cfg.Logger.Info("creating the slot waits for open transactions", zap.String(logkey.Slot, cfg.Slot),
		zap.Stringers(logkey.Transactions, open), zap.String(logkey.Next, next.Next),
		zap.Strings(logkey.Commands, next.Commands))
	f := &fault.Error{
		Kind: fault.Retry, Object: cfg.SlotSubject(),
		Err: fmt.Errorf("creating it waits for transactions that are open: %s", transactionTexts(open)),
	}
	cfg.Waits(f.With(next))
}

func transactionTexts(open []openTransaction) string {
	texts := make([]string, len(open))
	for i, t := range open {
		texts[i] = t.String()
	}
	return strings.Join(texts, ", ")
}

// holder is the session that has the lock of the setup. Any role may take it, whether it sets something up or not.
type holder struct {
	pid   int
	role  string
	end   string // the statement that ends it
	fault *fault.Error
}

// lockHolder names the session that sets the slot up. The session of a process that was killed in the creation of the
// slot lasts: the server notices when the creation has ended, which may wait for a transaction. It returns false if the
// session is not known.
func lockHolder(ctx context.Context, s servers, cfg Config) (h holder, ok bool) {
	of, err := postgres.LookupLockHolder(ctx, s.Conn, lockKey(cfg))
	if err != nil || of == nil {
		return h, false
	}
	h.pid, h.role = of.PID, of.User
	h.end = of.End()
	session := fmt.Sprintf("the session with pid %d (role %q, application %q)", of.PID, of.User, of.Application)
	end := fault.Do("If its process has ended or is stuck, end the session.", h.end)
	switch {
	case of.PID == 0:
		session, end = of.String()+" holds the lock of the setup", of.Remedy()
	case of.Since >= 0:
		session += " has been setting it up for " + human.Duration(of.Since.Round(time.Second))
	default:
		session += " is setting it up"
	}
	h.fault = &fault.Error{Kind: fault.Retry, Object: cfg.SlotSubject(), Err: errors.New(session)}
	open, err := s.openTransactions(ctx, 3)
	if err != nil || !of.Waits || len(open) == 0 {
		h.fault = h.fault.With(end)
		return h, true
	}
	h.fault.Err = fmt.Errorf("%w, and waits for transactions that are open: %s", h.fault.Err, transactionTexts(open))
	h.fault = h.fault.With(fault.Do("This is about the oldest transaction.").Then(open[0].remedy()).Then(end))
	return h, true
}

func (h holder) log(cfg Config) {
	cfg.Logger.Warn("another session has the lock of the setup, waiting for it", zap.String(logkey.Slot, cfg.Slot),
		zap.Int(logkey.HolderPID, h.pid), zap.String(logkey.HolderRole, h.role), zap.String(logkey.Next, h.end))
}
