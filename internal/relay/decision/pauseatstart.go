package decision

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// errUnasked is why it is not known at the start whether the relay is paused.
var errUnasked = errors.New("the table has not been read yet")

// Around runs a relay with the watch beside it, until the relay ends. Nothing is published before it is known whether
// an operator has paused it; known is called then.
func (w *Watch) Around(ctx context.Context, known func(), run func(context.Context) error) error {
	around, end := context.WithCancel(ctx)
	defer end()
	g, around := errgroup.WithContext(around)
	if w.Table.Name.Name != "" {
		unread := func(err error) { w.Relay.Pause(&relay.Pause{Unread: err, Since: time.Now()}) }
		unread(errUnasked)
		g.Go(func() error {
			w.Await(around, unread)
			if around.Err() == nil {
				known()
			}
			return w.Run(around)
		})
	}
	g.Go(func() error {
		defer end()
		return run(around)
	})
	return g.Wait()
}

// Passable takes their position from rows that cannot be passed: they are listed, and refused.
func Passable(halted []*relay.HaltedRow) (rows []*relay.HaltedRow) {
	for _, h := range halted {
		if !h.Passable() {
			h = &relay.HaltedRow{EventID: h.EventID, Message: h.Message}
		}
		rows = append(rows, h)
	}
	return rows
}
