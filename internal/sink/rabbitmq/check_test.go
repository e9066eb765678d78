package rabbitmq

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// The check finds what run would wait for, and takes nothing from a connector that runs.
func TestCheck(t *testing.T) {
	s := shared(t)
	c := cluster(s, t.Name())
	levels := func(c Cluster, topics ...string) (all []preflight.Level, text string) {
		for _, f := range Check(within(t), c, owner.ID, topics) {
			all = append(all, f.Level)
			text += fmt.Sprintf("%s: %s %s\n", f.Subject, f.Found, f.Remedy)
		}
		return all, text
	}
	all, text := levels(c, "outbox.a", "outbox.b")
	require.Equal(t, []preflight.Level{preflight.OK, preflight.OK, preflight.Fail}, all, text)
	require.Contains(t, text, "3.10")
	require.Contains(t, text, "No connector has it")
	require.Contains(t, text, "It does not exist")

	bound(t, s, t.Name(), "topic", 1)
	r := open(t, c)
	r.begin()
	all, text = levels(c, "outbox.a", "letters")
	require.Equal(t, []preflight.Level{preflight.OK, preflight.OK, preflight.OK, preflight.Fail}, all, text)
	require.Contains(t, text, "A connector that runs has it")
	require.Contains(t, text, t.Name()+".letters")
	require.NoError(t, c.Takes(within(t), "outbox.a"))
	err := c.Takes(within(t), "letters")
	require.ErrorContains(t, err, "it does not exist, so nothing was decided")
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.NoError(t, r.Keep(within(t)))

	c.VHost = "nowhere"
	all, text = levels(c)
	require.Equal(t, []preflight.Level{preflight.Fail}, all)
	require.Contains(t, text, "rabbitmq.vhost")
}

// A user who may not declare the queue of the slot gets to know the right that is missing; without the queue it works.
func TestRights(t *testing.T) {
	s := shared(t)
	bound(t, s, t.Name(), "topic", 1)
	s.Control(t, "add_user", "writer", "secret")
	s.Control(t, "set_permissions", "writer", "^$", ".*", "^$")
	c := cluster(s, t.Name())
	c.User = func() (string, error) { return "writer", nil }
	c.Password = func() (string, error) { return "secret", nil }
	r := open(t, c)
	_, _, err := r.Begin(soon(t), owner)
	require.Error(t, err)
	require.Contains(t, r.waits("may not declare the queue").Remedy, "rabbitmq.lock")
	r.close()

	c.Lock = false
	r = open(t, c)
	r.begin()
	require.NoError(t, r.Keep(within(t)))
	r.produceAll(1, 100)
	r.drain()
	r.requireAcked(100)
	r.close()

	s.Control(t, "set_permissions", "writer", "^$", "^$", "^$")
	r = open(t, c) // a channel keeps the rights that it was asked for, for a minute
	r.begin()
	r.produceAll(101, 110)
	require.Contains(t, r.waits("access").Sentence, "refused")
	s.Control(t, "set_permissions", "writer", "^$", ".*", "^$")
	r.drain()
	require.GreaterOrEqual(t, requireOrder(t, s, t.Name(), 1, 110), 0)
}
