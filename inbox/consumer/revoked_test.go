package consumer

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// A handler whose partition is revoked is cancelled, and may fail for that reason alone, with whatever error. Nothing
// is concluded from it: the next owner tries the record again, and no dead letter says that it was given up.
func TestAFailureAfterTheRevocationIsNotJudged(t *testing.T) {
	for name, failure := range map[string]error{
		"for good":     Permanent(errors.New("no such order")),
		"once more":    errors.New("canceling statement due to user request"),
		"away":         Unavailable(errors.New("connection refused")),
		"unfinished":   inbox.ErrUnfinished,
		"no id":        inbox.ErrEventID,
		"is cancelled": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over, revoke := context.WithCancel(t.Context())
				asked := false
				c := &Consumer{
					opts: Options{
						Attempts: 1, Budget: time.Minute, Pause: time.Second, MaxPause: time.Second,
						Logger:  slog.New(slog.DiscardHandler),
						Healthy: func(context.Context) error { asked = true; return nil },
					},
					handle: func(context.Context, []Message) error { revoke(); return failure },
				}
				p := &partition{c: c, topicPartition: topicPartition{topic: "t"}, progress: &progress{}}
				began := time.Now()
				attempts, err := p.try(t.Context(), over, Message{ID: "e-1"})
				require.Equal(t, errOver, err)
				require.Zero(t, attempts, "it does not count")
				require.False(t, asked)
				require.Equal(t, began, time.Now(), "there is nothing to wait for")
			})
		})
	}
}
