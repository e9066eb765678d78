package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// TestStopWhileTheGroupForms: a broker answers a member that joins when all have, which may take half a minute. A member
// that is asked to stop does not wait for it.
//
// Bug (monitor): A consumer, and `forward`, that was asked to stop while it joined its group waited for the broker's
// answer. Cost: up to 35 seconds, longer than a service manager waits.
func TestStopWhileTheGroupForms(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	asked, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	b.ControlKey(kmsg.JoinGroup.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(asked)
		b.SleepControl(func() { <-release })
		return nil, nil, false
	})
	c, err := consumer.New(b.options(), func(context.Context, consumer.Message) error { return nil })
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-asked
	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second): // kafka-go waits for 35
		t.Fatal("it waits for the broker's answer")
	}
}
