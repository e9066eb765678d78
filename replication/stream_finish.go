package replication

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"go.uber.org/zap"
)

// Finish ends the stream in good order: it reports the confirmed position one last time, ends COPY mode and reads,
// without looking, until the server says that it is done, which proves that the report has been taken in. It may be
// called after Receive has returned the end of Run's context, and from Receive's goroutine only; Receive is not to be
// called afterwards. The server first sends the rest of a transaction it is in the middle of, so give ctx a limit.
func (s *Stream) Finish(ctx context.Context) error {
	s.status.stop()
	if err := s.resumeReads(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })()
	if err := s.storeLast(ctx); err != nil {
		s.cfg.Logger.Warn("the last position could not be remembered", zap.Error(err))
	}

	copyDone := []byte{'c', 0, 0, 0, 4}
	if err := s.status.write(false, copyDone...); err != nil {
		return s.cfg.retry(err)
	}
	for {
		typ, body, err := s.frames.next()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return s.cfg.retry(err)
		}
		switch typ {
		case 'C':
			return s.terminate()
		case 'E':
			var e pgproto3.ErrorResponse
			if err := e.Decode(body); err != nil {
				return s.corrupt(err)
			}
			return s.cfg.serverError(duringStream, s.status.reported(), pgconn.ErrorResponseToPgError(&e))
		}
	}
}

// storeLast writes down the position that the last status is going to report.
func (s *Stream) storeLast(ctx context.Context) error {
	s.stopStoring()
	s.storing.Wait()
	m, confirmed := s.checkpoint, s.confirmed()
	if m == nil || m.off.Load() || confirmed <= lsn.LSN(m.stored.Load()) {
		return nil
	}
	return m.store(ctx, confirmed)
}

// resumeReads lifts the deadline by which the end of Run's context ended Receive. A stream that broke stays broken.
func (s *Stream) resumeReads() error {
	s.deadline.Lock()
	defer s.deadline.Unlock()
	if s.finishing {
		return errors.New("replication: Finish called twice")
	}
	s.finishing = true
	stopped := context.Cause(s.ctx)
	if why := s.interrupted.Load(); why != nil && !errors.Is(*why, stopped) {
		return *why
	}
	if s.err != nil && !errors.Is(s.err, stopped) {
		return s.err
	}
	return s.conn.SetReadDeadline(time.Time{})
}

// terminate says good-bye, so that the server does not log a lost connection.
func (s *Stream) terminate() error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = s.conn.Write([]byte{'X', 0, 0, 0, 4}) // best effort: the report has been taken in
	return nil
}
