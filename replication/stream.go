package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"go.uber.org/zap"
)

// Identity is the server and the slot that a stream is connected to.
type Identity struct {
	SystemID      string
	Timeline      int32
	Database      string
	ServerVersion int // server_version_num, e.g. 150018
	// ConfirmedFlush is the slot's confirmed_flush_lsn when the connection was made, or the checkpoint's position if
	// that is further. It may be before the position that the tracker confirmed (before PG 17 a Postgres restart brings
	// back an older value, and the checkpoint may be off) and ahead of it (another instance held the slot in between,
	// and published and confirmed events that this one had not).
	ConfirmedFlush lsn.LSN
	RestartLSN     lsn.LSN
	// TimelineChanged: the server was promoted since this Run's previous stream. Positions of the old timeline mean
	// nothing on the new one: the caller has to rewind its tracker to ConfirmedFlush.
	TimelineChanged bool
	// Start is the position given to START_REPLICATION, 0 for the slot's own position. Not yet set in OnIdentity.
	Start lsn.LSN
	// WALEnd is the end of the server's log when the connection was made.
	WALEnd lsn.LSN
	// BackendPID is the walsender's.
	BackendPID uint32
	// InRecovery: it was a standby when the connection was made. The stream goes on when that is promoted.
	InRecovery bool
	// Past are the ends of the server's earlier timelines; nil if there are none, or the server cannot say.
	Past []postgres.TimelineSwitch

	slot             postgres.Slot
	walSenderTimeout time.Duration
}

// Stream is one replication connection in COPY mode. Receive and Finish belong to one goroutine; the
// other methods may be called from anywhere. The duties of the holder of a stream are in the package documentation.
type Stream struct {
	ctx        context.Context // Run's; kept to tell its end from a broken stream
	cfg        *Config
	checkpoint *checkpoint   // nil: none is kept
	silence    time.Duration // after which the server counts as dead
	identity   Identity
	holder     func(context.Context) (uint32, lsn.LSN, error) // the session that holds the slot, and its position
	conn       net.Conn
	frames     *frames
	decoder    pgoutput.Decoder
	message    pgoutput.Message
	err        error     // the last error of Receive, if it was final
	readAt     time.Time // when bytes arrived last
	late       bool      // arriving rows were committed long ago
	onLate     func(bool)
	delivered  bool // there was WAL on this stream, not only keepalives
	answered   bool // the last message was a keepalive: see whether the caller confirmed it

	epoch    time.Time
	heard    atomic.Int64 // when the server was last heard, as duration since epoch
	ahead    atomic.Int64 // by how much the server's clock is ahead of ours; noClock: not known
	waiting  atomic.Int64 // since when Receive waits for the server, as duration since epoch; notWaiting
	received atomic.Uint64
	lastRow  atomic.Uint64 // the commit of the last row received
	at       mark          // the last message received of a transaction

	interrupted atomic.Pointer[error] // why Receive must end
	broken      chan struct{}         // closed with it
	withheld    atomic.Bool           // nothing may be confirmed
	nudged      atomic.Bool           // Receive is to return ErrInterrupted once
	deadline    sync.Mutex            // guards finishing and the order of the connection's read deadlines
	finishing   bool
	release     func() bool // ends the watch over Run's context

	storing     sync.WaitGroup // writing down the confirmed position
	stopStoring context.CancelFunc
	status      statusClock
	shutdown    shutdownWatch
}

const notWaiting = -1

// newStream takes over conn, on which COPY mode has begun, and starts the status clock. from reads from conn.
func newStream(ctx context.Context, r *runner, conn net.Conn, from io.Reader, id Identity) *Stream {
	s := &Stream{
		ctx: ctx, cfg: r.cfg, checkpoint: r.checkpoint, silence: r.silence, identity: id,
		conn: conn, epoch: time.Now(), broken: make(chan struct{}), onLate: func(bool) {},
	}
	s.decoder.PassOver = r.cfg.PassOver
	s.frames = newFrames(&watchedReader{s, from}, r.cfg.LongRow)
	s.waiting.Store(notWaiting)
	s.ahead.Store(noClock)
	s.withheld.Store(r.cfg.Withhold)
	s.received.Store(uint64(id.Start))
	ending, end := context.WithCancel(context.Background())
	s.stopStoring = end
	if s.checkpoint != nil && !s.checkpoint.off.Load() {
		s.checkpoint.follow(&s.lastRow)
		s.storing.Go(func() { s.checkpoint.run(ending, s) })
	}
	s.status.start(s)
	s.release = context.AfterFunc(ctx, func() { s.interrupt(context.Cause(ctx)) })
	return s
}

// Identity is the server and the slot that the stream is connected to.
func (s *Stream) Identity() Identity { return s.identity }

// Received is the highest WAL position the server has named on this stream.
func (s *Stream) Received() lsn.LSN { return lsn.LSN(s.received.Load()) }

// LastHeard is when the last bytes arrived from the server, the stream's start if none have.
func (s *Stream) LastHeard() time.Time { return s.epoch.Add(time.Duration(s.heard.Load())) }

// Broken is closed once it is known, without a Receive, that the next Receive will fail: status updates go out
// all the time, and they find a dead line or a server that no longer answers.
func (s *Stream) Broken() <-chan struct{} { return s.broken }

// Receive returns the next message, waiting for it as long as it takes. The message is valid until the next call.
// An error is final and either the cause of Run's context's end or a *fault.Error; return it from consume.
func (s *Stream) Receive() (*pgoutput.Message, error) {
	if s.answered {
		s.answered = false
		s.status.confirmed(s.confirmed())
	}
	if s.err != nil {
		return nil, s.err
	}
	err := s.receive()
	if err == nil {
		return &s.message, nil
	}
	if !errors.Is(err, ErrInterrupted) {
		s.err = err
	}
	return nil, err
}

func (s *Stream) receive() error {
	for {
		if why := s.interrupted.Load(); why != nil {
			return *why
		}
		if s.nudged.Load() {
			return s.heed()
		}
		typ, body, err := s.frames.next()
		if err != nil {
			return s.readError(err)
		}
		switch typ {
		case 'd':
			if done, err := s.copyData(body); done || err != nil {
				return err
			}
		case shortened:
			s.decoder.Cut = true
			done, err := s.copyData(body)
			s.decoder.Cut = false
			if done || err != nil {
				return err
			}
		case 'N':
			if err := s.notice(body); err != nil {
				return err
			}
		case 'S':
		default:
			return s.endError(typ, body)
		}
	}
}

// copyData reads the body of a CopyData message: an XLogData or a keepalive (Postgres docs 55.4).
func (s *Stream) copyData(b []byte) (done bool, err error) {
	if len(b) == 0 {
		return false, s.corrupt(errors.New("an empty CopyData message"))
	}
	switch b[0] {
	case 'w':
		if len(b) < xlogHeader {
			return false, s.corrupt(fmt.Errorf("an XLogData message of %d bytes", len(b)))
		}
		start := binary.BigEndian.Uint64(b[1:])
		s.sawWAL(max(start, binary.BigEndian.Uint64(b[9:])))
		s.delivered = true
		if err := s.decoder.Decode(&s.message, lsn.LSN(start), b[xlogHeader:]); err != nil {
			return false, s.corrupt(err)
		}
		s.sawRow()
		return true, nil
	case 'k':
		if len(b) != 18 {
			return false, s.corrupt(fmt.Errorf("a keepalive message of %d bytes", len(b)))
		}
		end := binary.BigEndian.Uint64(b[1:])
		s.sawWAL(end)
		s.setLate(false)
		s.sawClock(int64(binary.BigEndian.Uint64(b[9:])))
		s.message.Kind = pgoutput.KindKeepalive
		s.message.WALStart = 0
		s.message.Relation, s.message.Tuple = nil, nil
		s.message.Keepalive = pgoutput.Keepalive{WALEnd: lsn.LSN(end), ReplyRequested: b[17] != 0}
		if b[17] != 0 {
			s.status.ask()
		}
		s.answered = true
		return true, nil
	default:
		return false, s.corrupt(fmt.Errorf("CopyData of unknown kind %q", b[0]))
	}
}

// notice looks for the one notice that must not be passed over. Up to PG 17 a publication that did not exist when a
// row was written is an error (42704); from PG 18 on the server warns, leaves out the rows and goes on (pgoutput.c,
// LoadPublications), which would have them confirmed without ever having been seen. The text depends on lc_messages.
func (s *Stream) notice(body []byte) error {
	var n pgproto3.NoticeResponse
	if err := n.Decode(body); err != nil {
		return s.corrupt(err)
	}
	if n.Routine != "LoadPublications" || n.Code != "55000" {
		s.cfg.Logger.Debug("notice on the replication stream", zap.String(logkey.SQLState, n.Code),
			zap.String(logkey.Routine, n.Routine))
		return nil
	}
	missing := pgconn.ErrorResponseToPgError((*pgproto3.ErrorResponse)(&n))
	missing.Code = "42704"
	return s.cfg.serverError(duringStream, s.status.reported(), missing)
}

// sawRow notes the transaction of the first of its rows, and how far the stream is into it.
func (s *Stream) sawRow() {
	s.at.messages++
	switch s.message.Kind {
	case pgoutput.KindBegin:
		s.at = mark{commit: s.message.Begin.CommitLSN}
		s.setLate(s.isLate(s.message.Begin.CommitTime))
	case pgoutput.KindLogicalMessage:
		if !s.message.Logical.Transactional || !slices.Contains(s.cfg.Messages, s.message.Logical.Prefix) {
			return
		}
		fallthrough
	case pgoutput.KindInsert:
		if commit := uint64(s.at.commit); s.lastRow.Load() < commit {
			s.lastRow.Store(commit)
		}
	}
}

// sawWAL keeps the highest position. Only Receive's goroutine writes it.
func (s *Stream) sawWAL(at uint64) {
	if at > s.received.Load() {
		s.received.Store(at)
	}
}

// endError is the error for a message that ends the stream.
func (s *Stream) endError(typ byte, body []byte) error {
	switch typ {
	case 'E':
		var e pgproto3.ErrorResponse
		if err := e.Decode(body); err != nil {
			return s.corrupt(err)
		}
		return s.cfg.serverError(duringStream, s.status.reported(), pgconn.ErrorResponseToPgError(&e))
	case 'c', 'C', 'Z':
		return s.cfg.retry(errors.New("the server ended the stream")) // it shuts down
	default:
		return s.corrupt(fmt.Errorf("protocol message %q during replication", typ))
	}
}

// readError is the error for a read that failed.
func (s *Stream) readError(err error) error {
	if why := s.interrupted.Load(); why != nil {
		return *why
	}
	if s.nudged.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return s.heed()
	}
	var bad *frameError
	if errors.As(err, &bad) {
		return s.corrupt(err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the server closed the connection")
	}
	return s.cfg.retry(err)
}

// interrupt ends Receive with the given error, also while it waits. The first cause stays.
func (s *Stream) interrupt(why error) {
	s.deadline.Lock()
	defer s.deadline.Unlock()
	if s.finishing || !s.interrupted.CompareAndSwap(nil, &why) {
		return
	}
	close(s.broken)
	_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, whose reads fail anyway
}

// close ends the connection and waits for the status clock.
func (s *Stream) close() {
	s.release()
	s.stopStoring()
	s.storing.Wait()
	s.shutdown.stop()
	s.status.stop()
	if err := s.conn.Close(); err != nil {
		s.cfg.Logger.Debug("closing the replication connection failed", zap.Error(err))
	}
}

// watchedReader notes when the stream waits for the server and when it hears from it.
type watchedReader struct {
	s *Stream
	r io.Reader
}

func (w *watchedReader) Read(p []byte) (int, error) {
	w.s.waiting.Store(int64(time.Since(w.s.epoch)))
	n, err := w.r.Read(p)
	w.s.waiting.Store(notWaiting)
	if n > 0 {
		w.s.readAt = time.Now()
		w.s.heard.Store(int64(w.s.readAt.Sub(w.s.epoch)))
	}
	return n, err
}
