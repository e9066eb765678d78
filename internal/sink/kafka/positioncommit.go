package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Keeper keeps what is to be known about the slot outside of Postgres: as the metadata of an offset that the slot's
// consumer group commits. It takes no transaction and no producer, and an instance that has lost the slot can disturb
// nothing with it: its number of writes is lower, or its position true. With exactly-once delivery the transactions
// keep it instead, see Producer.Remember.
type Keeper struct {
	cfg  wire.Cluster
	log  *zap.Logger
	wake chan struct{} // capacity 1

	mu    sync.Mutex
	group string
	next  *sink.Stored // to be committed; nil: nothing
	off   bool         // the user may not
}

// NewKeeper makes a keeper. It connects to nothing.
func NewKeeper(cluster wire.Cluster, log *zap.Logger) *Keeper {
	cluster.SetDefaults()
	if log == nil {
		log = zap.NewNop()
	}
	return &Keeper{cfg: cluster, log: log, wake: make(chan struct{}, 1)}
}

// Fetch returns the position that the group has kept, false if there is none. It tries once.
func (k *Keeper) Fetch(ctx context.Context, group string) (s sink.Stored, found bool, err error) {
	err = k.with(ctx, group, func(w *wire.Conn) error {
		text, code, err := w.FetchOffset(group, wire.DefaultPositionTopic, true, k.cfg.RequestTimeout)
		switch {
		case err != nil:
			return err
		case code == wire.GroupIDNotFound || code == 0 && text == "":
			return nil
		case code != 0:
			return codeError("OffsetFetch", code)
		}
		if s, err = sink.ParseStored(text); err != nil {
			return notAPosition(&k.cfg, group, wire.DefaultPositionTopic, err)
		}
		found = true
		return nil
	})
	return s, found, err
}

// Commit keeps s. It tries once.
func (k *Keeper) Commit(ctx context.Context, group string, s sink.Stored) error {
	return k.with(ctx, group, func(w *wire.Conn) error { return k.commit(ctx, w, group, s) })
}

func (k *Keeper) commit(ctx context.Context, w *wire.Conn, group string, s sink.Stored) error {
	text := s.Text(0)
	for first := true; ; first = false {
		code, err := w.CommitOffset(group, wire.DefaultPositionTopic, int64(s.Commit), text, k.cfg.RequestTimeout)
		switch {
		case err != nil || code == 0:
			return err
		case code == wire.UnknownTopic && first:
			if err := k.createTopic(ctx); err != nil {
				return err
			}
		default:
			return codeError("OffsetCommit", code)
		}
	}
}

// Keep has Run keep s, the latest of all that it was given.
func (k *Keeper) Keep(group string, s sink.Stored) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.group, k.next = group, &s
	poke(k.wake)
}

const (
	// keeperPause is the least time between two commits.
	keeperPause = 500 * time.Millisecond
	// keeperRetry is the pause after an attempt that failed.
	keeperRetry = time.Second
	// keeperLast bounds all that follows the end of Run's context: the commit that is under way, and the last one. With
	// the connector's drain it is less than the 10 s after which a supervisor may kill the process.
	keeperLast = time.Second
)

// Run keeps what Keep was given until ctx ends, and what is left then.
func (k *Keeper) Run(ctx context.Context) error {
	var w *wire.Conn
	defer func() {
		if w != nil {
			_ = w.Close()
		}
	}()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		wire.SleepUntil(life, time.Now().Add(keeperLast))
		end() // a Kafka that does not answer must not keep the process from ending
	})()
	for last := false; !last; {
		select {
		case <-ctx.Done():
		case <-k.wake:
		}
		last = ctx.Err() != nil // k.wake may be ready too, for an attempt that failed
		group, s := k.nextCommit()
		if s == nil {
			continue
		}
		pause := keeperPause
		switch err := k.commitOver(life, &w, group, *s); {
		case err == nil:
		case errors.Is(err, sink.ErrNotAllowed):
			k.NotAllowed(group)
			return nil
		default:
			k.log.Debug("the checkpoint's number cannot be kept in Kafka", zap.Error(err))
			k.putBack(s)
			pause = keeperRetry
		}
		wire.SleepUntil(ctx, time.Now().Add(pause))
	}
	return nil
}

func (k *Keeper) nextCommit() (group string, s *sink.Stored) {
	k.mu.Lock()
	defer k.mu.Unlock()
	group, s = k.group, k.next
	k.next = nil
	return group, s
}

func (k *Keeper) putBack(s *sink.Stored) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil {
		k.next = s
	}
	poke(k.wake)
}

// commitOver commits over a connection that is kept.
func (k *Keeper) commitOver(ctx context.Context, w **wire.Conn, group string, s sink.Stored) (err error) {
	limited, cancel := context.WithTimeout(ctx, k.cfg.RequestTimeout)
	defer cancel()
	if *w == nil {
		if *w, err = k.coordinator(limited, group); err != nil {
			*w = nil
			return err
		}
	}
	conn := *w
	defer context.AfterFunc(limited, func() { _ = conn.Close() })()
	if err = k.commit(limited, *w, group, s); err != nil {
		_ = (*w).Close()
		*w = nil
	}
	return err
}

// NotAllowed says once that nothing is kept, and what would allow it.
func (k *Keeper) NotAllowed(group string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.off {
		return
	}
	k.off = true
	remedy := k.cfg.AllowPositions(group, wire.DefaultPositionTopic)
	k.log.Warn("nothing is kept in Kafka about the checkpoint, so a server that was put back to an older state while "+
		"the connector was down would not be noticed", zap.String(logkey.Group, group),
		zap.String(logkey.Remedy, remedy.String()))
}

// codeError is an answer's code as an error.
func codeError(api string, code int16) error {
	return notAllowed(&wire.CodeError{API: api, Code: code})
}

// notAllowed adds ErrNotAllowed to a refusal for want of a right.
func notAllowed(err error) error {
	var ce *wire.CodeError
	if !errors.As(err, &ce) {
		return err
	}
	switch ce.Code {
	case wire.GroupAuthorizationFailed, wire.TopicAuthorizationFailed, wire.ClusterAuthorizationFailed:
		return fmt.Errorf("%w: %w", sink.ErrNotAllowed, err)
	}
	return err
}

// with asks the group's coordinator.
func (k *Keeper) with(ctx context.Context, group string, ask func(*wire.Conn) error) error {
	w, err := k.coordinator(ctx, group)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	return ask(w)
}

// coordinator connects to the group's coordinator.
func (k *Keeper) coordinator(ctx context.Context, group string) (*wire.Conn, error) {
	w, err := k.dialAny(ctx)
	if err != nil {
		return nil, err
	}
	c, err := wire.DialCoordinator(ctx, &k.cfg, w, wire.CoordinatesGroups, group, k.cfg.RequestTimeout)
	return c, notAllowed(err)
}

func (k *Keeper) dialAny(ctx context.Context) (*wire.Conn, error) {
	var first error
	for _, addr := range k.cfg.Brokers {
		w, err := wire.Dial(ctx, &k.cfg, addr)
		if err == nil {
			return w, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// createTopic creates the topic that offsets are committed for.
func (k *Keeper) createTopic(ctx context.Context) error {
	w, err := k.dialAny(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	return notAllowed(wire.EnsurePositionTopic(ctx, &k.cfg, w, wire.DefaultPositionTopic, k.cfg.RequestTimeout))
}
