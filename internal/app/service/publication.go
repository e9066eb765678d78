package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

// watchMembership checks on a timer whether the tables are still published. A table that was dropped and made again, or
// taken out of the publication, is simply absent from the stream, which goes on as if the application had nothing to
// say: only the catalog shows it. The second check in a row that finds it ends the process, as the same finding would
// at the start; a single one may be a migration or a failover that is not finished.
func (s *walService) watchMembership(ctx context.Context) error {
	tick := time.NewTicker(s.Config.Monitor.Interval)
	defer tick.Stop()
	var before error
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := s.misfit(ctx)
		s.unpublished.Store(s.unpublished.Load().next(err))
		switch {
		case err != nil && before != nil:
			return s.unpublished.Load().firstNoticed()
		case err != nil:
			s.Logger.Warn(
				"rows of the outbox are missing from the stream; checking once more before stopping",
				telemetry.ErrorFields(err)...,
			)
		}
		before = err
	}
}

// misfit is why rows are missing from the stream.
type misfit struct {
	err   error
	since time.Time // of the first check that found something
}

// next is the finding after another check.
func (m *misfit) next(err error) *misfit {
	switch {
	case err == nil:
		return nil
	case m != nil:
		return &misfit{err, m.since}
	}
	return &misfit{err, time.Now().UTC()}
}

// firstNoticed is the error with the time of the first check that found something.
func (m *misfit) firstNoticed() error {
	var known *fault.Error
	if !errors.As(m.err, &known) {
		return m.err
	}
	noticed := *known
	noticed.Since = m.since
	return &noticed
}

// wait is nil without a finding, and for one about the slot, which has waits of its own.
func (m *misfit) wait() *fault.Wait {
	if m == nil || diagnose.AboutSlot(m.err) {
		return nil
	}
	why, remedy := fault.Split(m.err)
	object := "publication"
	var known *fault.Error
	if errors.As(m.err, &known) {
		object, why = known.Object, strings.TrimPrefix(why, known.Object+": ")
	}
	return &fault.Wait{
		Kind: diagnose.TableUnpublished, Object: object, Reason: "rows are missing from the stream: " + why,
		Next: remedy.Next, Commands: remedy.Commands, Since: m.since,
	}
}

// misfit returns the error that an operator has to fix. A server that cannot be asked, and a role that is turned away
// while its password is being changed, are not such errors: the stream judges both itself.
func (s *walService) misfit(ctx context.Context) error {
	dsn, err := wiring.DSN(s.Config)
	if err == nil {
		var r setup.Running
		r, err = setup.CheckRunning(ctx, dsn, s.admin, s.engine.Load().publishes)
		if err == nil || len(r.Harm) > 0 {
			s.reportHarm(preflight.FirstFailure(r.Harm))
			s.reportOtherRelay(r.Harm)
		}
		s.gaps.take(&r, s.Logger)
	}
	var refused *pgconn.PgError
	if err == nil || fault.KindOf(err) != fault.Operator || errors.As(err, &refused) {
		if err != nil && ctx.Err() == nil {
			s.Logger.Debug("publication and slot could not be looked at", zap.Error(err))
		}
		return nil
	}
	return err
}

// reportHarm keeps the last check's finding for the status, and logs when the harm begins and ends.
func (s *walService) reportHarm(err error) {
	before := s.harm.Load()
	switch {
	case err == nil && before != nil:
		s.harm.Store(nil)
		s.Logger.Info("commits no longer wait for the stream")
	case err != nil && before == nil:
		s.Logger.Error("commits on the server may wait for the stream", telemetry.ErrorFields(err)...)
		why, remedy := fault.Split(err)
		s.harm.Store(&fault.Wait{
			Kind: diagnose.Synchronous, Object: "synchronous_standby_names",
			Reason: strings.TrimPrefix(why, "synchronous_standby_names: "),
			Next:   remedy.Next, Commands: remedy.Commands, Since: time.Now().UTC(),
		})
	}
}

// reportOtherRelay keeps the last check's warning of another relay for the status, and logs when it begins.
func (s *walService) reportOtherRelay(findings []preflight.Finding) {
	at := slices.IndexFunc(findings, func(f preflight.Finding) bool { return f.Code == setup.CodeOtherRelay })
	if at < 0 {
		s.otherRelay.Store(nil)
		return
	}
	if s.otherRelay.Load() != nil {
		return
	}
	f := findings[at]
	s.Logger.Warn("another relay reads the same publication", append(telemetry.RemedyFields(f.ToDo()),
		zap.String(logkey.Object, f.Subject), zap.String(logkey.Reason, f.Found+" "+f.Why))...)
	s.otherRelay.Store(&fault.Wait{
		Kind: diagnose.OtherRelay, Object: f.Subject, Reason: f.Found + " " + f.Why,
		Next: f.Remedy, Commands: f.Commands, Since: time.Now().UTC(),
	})
}
