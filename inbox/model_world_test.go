package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// step is what an actor is about to do when it stops.
type step uint8

const (
	stepStart step = iota
	stepBegin
	stepStatement
	stepWait // for another transaction
	stepHandle
	stepCommit
	stepCall
	stepPrepare
	stepRemove
)

// outcome is what the search lets happen.
type outcome uint8

const (
	outcomeGood  outcome = iota
	outcomeCut           // the connection is lost, before the server got it
	outcomeLost          // the connection is lost, after a commit took effect
	outcomeFail          // the handler or the call fails; of a call it is not known whether it had its effect
	outcomeNone          // the call had no effect, and says so
	outcomeCrash         // the process ends
	outcomeEnd           // of the whole world
)

// actor is a goroutine of the real code that runs a step at a time: a delivery, a prune, an operator.
type actor struct {
	world   *world
	name    string
	resume  chan outcome
	at      step
	text    string
	waits   *transaction
	history strings.Builder // what it has been answered: with its code, that is its state
	over    bool
	crashed bool
	err     error // what it returned
}

// stop gives the turn back and waits for the next one.
func (a *actor) stop(at step, text string) outcome {
	a.at, a.text = at, text
	a.world.turn <- struct{}{}
	o := <-a.resume
	if o == outcomeCrash || o == outcomeEnd {
		runtime.Goexit()
	}
	return o
}

func (a *actor) note(format string, args ...any) { fmt.Fprintf(&a.history, format+";", args...) }

// world is one run: actors, and the server.
type world struct {
	server   *server
	actors   []*actor
	turn     chan struct{}
	mutant   *mutant
	ledger   *ledger
	scenario *scenario
	began    time.Time

	faults, naps int // that are left: what may still go wrong, and how often time may pass
	faulty       bool
	calls        []call
}

// call is a call of Forward, under the claim of a row's life.
type call struct {
	life   int
	effect bool // it had its effect, or may have
	good   bool // it returned nil
}

var _ transactor = (*actor)(nil)

// inSession is Inbox.inTx: begin, do, commit or roll back.
func (a *actor) inSession(ctx context.Context, do func(s session) error) error {
	return a.inTx(ctx, func(m *modelSession) error { return do(a.world.mutant.session(m)) })
}

func (a *actor) inTx(_ context.Context, do func(m *modelSession) error) error {
	if a.stop(stepBegin, "") == outcomeCut {
		return errCut
	}
	m := &modelSession{actor: a, tx: a.world.server.begin()}
	a.note("%v", m.tx.began.Sub(a.world.began))
	defer func() { m.tx.end() }() // also where the process crashes: the server notices
	if err := do(m); err != nil {
		if a.world.mutant.commitsFailures {
			_ = m.tx.commit()
		}
		return err
	}
	switch a.stop(stepCommit, "") {
	case outcomeCut:
		return a.world.mutant.ofCommit(errCut)
	case outcomeLost:
		_ = m.tx.commit()
		return errCut
	}
	return m.tx.commit()
}

// handle is Inbox.Handle, with a handler that has one effect.
func (a *actor) handle(l *ledger, e Event) error {
	ctx := context.Background()
	return l.run(ctx, e, func() error {
		return a.inTx(ctx, func(m *modelSession) error {
			return l.once(ctx, a.world.mutant.session(m), e, func() error { return a.effects(m, e) })
		})
	})
}

// effects is a handler that has one effect for each event.
func (a *actor) effects(m *modelSession, events ...Event) error {
	switch a.stop(stepHandle, "") {
	case outcomeCut:
		m.tx.end()
		return errCut
	case outcomeFail:
		a.note("handler fails")
		return errHandler
	}
	for _, e := range events {
		if a.world.mutant.effectOutside {
			a.world.server.event(e.ID).effects++
		} else {
			m.tx.event(e.ID).effects++
		}
	}
	return nil
}

// handleBatch is Inbox.HandleBatch, with a handler that has one effect for each event.
func (a *actor) handleBatch(l *ledger, events []Event) error {
	ctx := context.Background()
	return l.runBatch(ctx, events, func(b *batch) error {
		return a.inTx(ctx, func(m *modelSession) error {
			return l.onceEach(ctx, a.world.mutant.session(m), b, func(fresh []int) error {
				var claimed []Event
				for _, i := range fresh {
					claimed = append(claimed, events[i])
				}
				return a.effects(m, claimed...)
			})
		})
	})
}

// handleEach is what a consumer does: the batch, and if that fails, its events one by one.
func (a *actor) handleEach(l *ledger, events []Event) error {
	err := a.handleBatch(l, events)
	if err == nil || errors.Is(err, ErrDuplicate) {
		return nil
	}
	for _, e := range events {
		if err := a.handle(l, e); err != nil && !errors.Is(err, ErrDuplicate) {
			return err
		}
	}
	return nil
}

// forward is Inbox.Forward, with a call that may fail in each way.
func (a *actor) forward(l *ledger, e Event) error {
	ctx := context.Background()
	return l.run(ctx, e, func() error {
		return l.forward(ctx, a, e, callLimit, func(context.Context) error {
			c := call{life: a.world.server.event(theEvent.ID).row.life}
			n := len(a.world.calls)
			a.world.calls = append(a.world.calls, c)
			switch a.stop(stepCall, "") {
			case outcomeFail:
				a.world.calls[n].effect = true
				a.note("call fails")
				if a.world.mutant.failedIsNotSent {
					return ErrNotSent
				}
				return errHandler
			case outcomeNone:
				a.note("not sent")
				return ErrNotSent
			}
			a.world.calls[n] = call{life: c.life, effect: true, good: true}
			return nil
		})
	})
}

// operate is an operator who deletes the row of an event that is unfinished, as ErrUnfinished advises.
func (a *actor) operate() error {
	return a.inTx(context.Background(), func(m *modelSession) error {
		rows, err := m.exec(context.Background(), "DELETE", "billing", theEvent.ID)
		m.tx.event(theEvent.ID).removes = rows == 1
		return err
	})
}

const callLimit = time.Minute

var (
	theEvent   = Event{ID: "e"}
	another    = Event{ID: "f"}
	errHandler = errors.New("it fails")
)

// start lets an actor run until its first stop.
func (w *world) start(name string, do func(a *actor) error) *actor {
	a := &actor{world: w, name: name, resume: make(chan outcome)}
	w.actors = append(w.actors, a)
	go func() {
		defer func() { a.over = true; w.turn <- struct{}{} }()
		a.stop(stepStart, "")
		a.err = do(a)
		a.note("= %v", a.err)
	}()
	<-w.turn
	return a
}

// let resumes an actor and waits until it stops again, or is over.
func (w *world) let(a *actor, o outcome) {
	if o == outcomeCrash {
		a.crashed = true
		a.note("crashed")
	}
	a.resume <- o
	<-w.turn
}

// runnable reports whether the actor waits for its turn only.
func (a *actor) runnable() bool { return !a.over && (a.waits == nil || a.waits.over) }

// end lets all goroutines end.
func (w *world) end() {
	for _, a := range w.actors {
		if !a.over {
			w.let(a, outcomeEnd)
		}
	}
}

// own is the ledger as the mutant has changed it, with the strategy of l.
func (a *actor) own(l *ledger) *ledger {
	if a.world.mutant.ledger == nil {
		return l
	}
	changed := *l
	a.world.mutant.ledger(&changed)
	return &changed
}
