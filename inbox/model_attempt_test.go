package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// attemptRow is a row of the attempts' table, as committed.
type attemptRow struct {
	attemptChange
	begun  time.Time
	writer *transaction
}

// attemptChange is what a transaction does about an attempt.
type attemptChange struct {
	there  bool
	doomed time.Time // zero: it is not
}

// outside is what no transaction has a part in: what attempts have prepared, by their names.
type outside struct {
	files     map[string]bool
	published []string // committed
}

// attempt runs a statement about attempts.
func (p *pending) attempt(first bool) (answer, *transaction, error) {
	s, tx := p.tx.on, p.tx
	switch {
	case strings.HasPrefix(p.text, "INSERT"):
		if r := tx.visible(p.id()); r.there && r.status == "COMPLETED" {
			return answer{}, nil, nil
		}
		name := fmt.Sprint("attempt", len(s.attempts)+1)
		s.attempts[name] = &attemptRow{begun: tx.began}
		tx.writeAttempt(name, attemptChange{there: true})
		return one(name), nil, nil
	case strings.HasPrefix(p.text, "UPDATE"):
		return answer{value: p.doom()}, nil, nil
	}
	name := p.args[0].(string)
	fits := func() bool {
		r := s.attempts[name]
		switch {
		case strings.Contains(p.text, "doomed_at IS NULL"):
			return r.there && r.doomed.IsZero()
		case strings.Contains(p.text, "doomed_at <"):
			return r.there && !r.doomed.IsZero() && r.doomed.Before(tx.began.Add(-microseconds(p.args[1])))
		}
		return r.there
	}
	if first && !fits() {
		return answer{}, nil, nil
	}
	if w := s.attempts[name].writer; w != nil && w != tx {
		return answer{}, w, nil
	}
	if !fits() {
		return answer{}, nil, nil
	}
	tx.writeAttempt(name, attemptChange{})
	return answer{rows: 1}, nil, nil
}

func microseconds(arg any) time.Duration { return time.Duration(arg.(int64)) * time.Microsecond }

// doom takes attempts that are old enough, or were doomed long enough ago, and that no transaction is changing.
func (p *pending) doom() (names []string) {
	s, tx := p.tx.on, p.tx
	for _, name := range slices.Sorted(maps.Keys(s.attempts)) {
		r := s.attempts[name]
		since := r.begun
		if !r.doomed.IsZero() {
			since = r.doomed
		}
		if !r.there || r.writer != nil || !since.Before(tx.began.Add(-microseconds(p.args[1]))) {
			continue
		}
		names = append(names, name)
		c := r.attemptChange
		if c.doomed.IsZero() && !strings.Contains(p.text, "doomed_at = doomed_at") {
			c.doomed = tx.began
		}
		tx.writeAttempt(name, c)
	}
	return names
}

func (tx *transaction) writeAttempt(name string, c attemptChange) {
	if tx.attempts == nil {
		tx.attempts = map[string]attemptChange{}
	}
	tx.attempts[name], tx.on.attempts[name].writer = c, tx
}

// commitAttempts is part of a commit.
func (tx *transaction) commitAttempts() {
	for name, c := range tx.attempts {
		tx.on.attempts[name].attemptChange = c
	}
	tx.on.outside.published = append(tx.on.outside.published, tx.publishes...)
}

// attempt is Inbox.Attempt, with a file for its effect.
func (a *actor) attempt(l *ledger, e Event) error {
	ctx := context.Background()
	files := a.world.server.outside.files
	prepare := func(_ context.Context, attempt string) error {
		o := a.stop(stepPrepare, attempt)
		files[attempt] = true
		if o == outcomeFail {
			a.note("prepare fails")
			return errHandler
		}
		return nil
	}
	return l.attempt(ctx, a, e, prepare, func(attempt string) error {
		return l.run(ctx, e, func() error {
			return a.inTx(ctx, func(m *modelSession) error {
				s := a.world.mutant.session(m)
				return l.once(ctx, s, e, func() error {
					if err := l.settleAttempt(ctx, s, attempt); err != nil {
						return err
					}
					if err := a.effects(m, e); err != nil {
						return err
					}
					m.tx.publishes = append(m.tx.publishes, attempt)
					return nil
				})
			})
		})
	})
}

const abandoned = time.Hour

// cleanUp is Inbox.CleanUp, with a removal that may fail.
func (a *actor) cleanUp(l *ledger) error {
	files := a.world.server.outside.files
	_, err := l.cleanUp(context.Background(), a, abandoned, func(_ context.Context, attempt string) error {
		if a.stop(stepRemove, attempt) == outcomeFail {
			a.note("removal fails")
			return errHandler
		}
		delete(files, attempt)
		return nil
	})
	return err
}

// checkFiles is what must be true of files in every state.
func (w *world) checkFiles() error {
	for _, attempt := range w.server.outside.published {
		if !w.server.outside.files[attempt] {
			return fmt.Errorf("%s is published, and what it had prepared was removed", attempt)
		}
	}
	return nil
}

// finishFiles is what must be true of files in the end: clean ups that nothing disturbs leave what is published.
//
//waits:bubble
func (w *world) finishFiles() error {
	for range 2 {
		time.Sleep(2 * abandoned)
		a := w.start("the last clean up", func(a *actor) error { return a.cleanUp(w.ledger) })
		for !a.over {
			if !a.runnable() {
				return errors.New("the last clean up waits for ever")
			}
			w.let(a, outcomeGood)
		}
		if a.err != nil {
			return a.err
		}
	}
	if n := len(w.server.outside.published); len(w.server.outside.files) != n || n == 0 {
		return fmt.Errorf("after the last clean up there are the files %v; published are %v",
			w.server.outside.files, w.server.outside.published)
	}
	for name, r := range w.server.attempts {
		if r.there {
			return fmt.Errorf("%s is still registered", name)
		}
	}
	return w.checkFiles()
}

// attemptsKey is the part of a state's key about attempts.
func (s *server) attemptsKey() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.attempts)) {
		r := s.attempts[name]
		fmt.Fprint(&b, name, r.there, r.doomed.IsZero(), r.writer != nil, s.outside.files[name], " ")
	}
	fmt.Fprint(&b, s.outside.published)
	return b.String()
}
