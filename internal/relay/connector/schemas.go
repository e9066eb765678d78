package connector

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// errLookAgain has a row routed again, because what it needs may be there by now.
var errLookAgain = errors.New("look again")

// route makes the row's record, once its schema is known. There is none if the policy for bad rows has dealt with the
// row.
func (r *reader) route(row outboxRow) (*router.Record, error) {
	for {
		rec, err := r.c.cfg.Router.Route(row.relation, row.tuple,
			router.Source{Position: r.position, CommitTime: r.commitTime})
		if err == nil {
			if r.halted != nil {
				r.endHalt(row)
			}
			return rec, nil
		}
		if need := relay.Unresolved(r.c.cfg.Schemas, err); need != nil {
			err = r.awaitSchema(*need)
		} else if err = r.applyPolicy(row, err); err == nil {
			return nil, nil //nolint:nilnil // the row is dealt with
		}
		if err != nil && !errors.Is(err, errLookAgain) {
			return nil, err
		}
	}
}

// awaitSchema waits until it is known whether the registry has the schema. What was read before is sent meanwhile. It
// ends with the stream, which brings the row again, and with a stop, which leaves it to the next start.
func (r *reader) awaitSchema(need router.UnresolvedSchema) error {
	r.c.producer.Commit()
	ctx, cancel := r.whileOpen(r.c.currentStream())
	resolved := make(chan error, 1)
	go func() { resolved <- r.c.cfg.Schemas.Resolve(ctx, need) }()
	var over, err error
	select {
	case err = <-resolved:
		cancel()
	case over = <-r.c.ended:
		cancel()
		err = <-resolved
	}
	switch {
	case over != nil:
		return over
	case err == nil:
		return nil
	case r.c.life.Err() != nil:
		return r.c.life.Err()
	case r.c.isStopping():
		return errStopping
	}
	return errBroken
}

// endHalt ends the halt at a row that has a schema now.
func (r *reader) endHalt(row outboxRow) {
	if *r.halted != row.pos {
		return
	}
	r.halted = nil
	next := relay.Streaming
	if r.snapshot {
		next = relay.Snapshotting
	}
	if was := r.c.endHalt(next); was != nil {
		r.c.log.Info("the event has a schema now; continuing", zap.String(logkey.Event, was.EventID),
			zap.String(logkey.LSN, was.LSN))
	}
}

// schemaAgain is when a row that halted for its schema is tried again, because a version may have been registered; nil
// for another halt.
func (r *reader) schemaAgain() <-chan time.Time {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.halted == nil {
		return nil
	}
	switch router.Reason(r.c.halted.Reason) {
	case router.UnknownSchema, router.PayloadDoesNotFit:
		return time.After(lookAgain)
	}
	return nil
}

// schemaWaits lists why rows wait for their schemas.
func (c *Connector) schemaWaits() []fault.Wait {
	if c.cfg.Schemas == nil {
		return nil
	}
	return c.cfg.Schemas.Waits()
}

// schemaWait is for how long rows have waited for their schemas, 0 if they do not, and why.
func (c *Connector) schemaWait(now time.Time) (time.Duration, string) {
	for _, w := range c.schemaWaits() {
		age := now.Sub(w.Since)
		return age, fmt.Sprintf("nothing was published for %s: %s", human.Duration(age), w.Sentence())
	}
	return 0, ""
}
