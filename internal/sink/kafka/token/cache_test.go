package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// source gives a token of this life each second, or an error.
type source struct {
	life  time.Duration
	takes time.Duration // a second, unless it is set
	err   error
	asked int
}

// fetch takes its time.
//
//waits:bubble
func (s *source) fetch(context.Context) (wire.Token, error) {
	s.asked++
	time.Sleep(cmp.Or(s.takes, time.Second))
	if s.err != nil {
		return wire.Token{}, s.err
	}
	return wire.Token{Value: fmt.Sprint("token ", s.asked), Expires: time.Now().Add(s.life)}, nil
}

func value(t *testing.T, c *Cache) string {
	t.Helper()
	token, err := c.Get(t.Context())
	require.NoError(t, err)
	return token.Value
}

// TestTokenIsSharedAndFetchedAhead of its end, once for all that ask.
func TestTokenIsSharedAndFetchedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{life: 100 * time.Second}
		c := newCache(s.fetch)
		require.False(t, c.Ahead())
		var got atomic.Int32
		for range 10 {
			go func() {
				if token, err := c.Get(t.Context()); err == nil && token.Value == "token 1" {
					got.Add(1)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		require.Equal(t, int32(10), got.Load())
		time.Sleep(70 * time.Second)
		require.True(t, c.Ahead())
		require.Equal(t, "token 1", value(t, c))
		time.Sleep(10 * time.Second)
		require.False(t, c.Ahead(), "the next token is under way")
		time.Sleep(2 * time.Second)
		require.True(t, c.Ahead())
		require.Equal(t, "token 2", value(t, c))
		require.Equal(t, 2, s.asked)
	})
}

// TestOutageOfTheSource: the token there is serves as long as it is worth a login, attempts become rare, and then the
// error is that of the last attempt.
func TestOutageOfTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{life: 100 * time.Second}
		c := newCache(s.fetch)
		require.Equal(t, "token 1", value(t, c))
		s.err = &wire.TokenError{Kind: sink.NoToken, Source: "endpoint", Err: errors.New("down")}
		time.Sleep(81 * time.Second)
		require.False(t, c.Ahead())
		time.Sleep(2 * time.Second)
		require.ErrorContains(t, c.Trouble(), "down")
		require.Equal(t, "token 1", value(t, c))
		for range 600 {
			_, _ = c.Get(t.Context())
			time.Sleep(time.Second)
		}
		_, err := c.Get(t.Context())
		require.ErrorContains(t, err, "the endpoint gives no token: down")
		require.Less(t, s.asked, 100)
		s.err = nil
		time.Sleep(longestPause)
		require.NotEmpty(t, value(t, c))
		require.Nil(t, c.Trouble())
	})
}

// TestHungSource: a login waits for a newer token, and not long where the token there is can be shown.
//
// Bug (configuration): A login waited for a token endpoint that hung, although the present token was good. Cost: most
// of a connection's time was lost.
func TestHungSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{life: 100 * time.Second}
		c := newCache(s.fetch)
		login := func(want string, wait time.Duration) {
			t.Helper()
			began := time.Now()
			require.Equal(t, want, value(t, c))
			require.Equal(t, wait, time.Since(began))
		}
		login("token 1", time.Second)
		time.Sleep(90 * time.Second)
		s.takes = fetchTimeout
		login("token 1", grace)
		login("token 1", grace)
		time.Sleep(fetchTimeout)
		login("token 2", 0)
		time.Sleep(98 * time.Second)
		login("token 3", fetchTimeout)
	})
}

// TestWaitEndsWithItsContext and the attempt goes on for others.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache((&source{life: time.Hour}).fetch)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := c.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "token 1", value(t, c))
	})
}

// TestShortTokens are replaced early enough that what is left of them is worth a login.
func TestShortTokens(t *testing.T) {
	now := time.Now()
	for life, want := range map[time.Duration]time.Duration{
		time.Second: -2 * time.Second, 4 * time.Second: time.Second, time.Hour: 48 * time.Minute,
		50 * 365 * 24 * time.Hour: 40 * 365 * 24 * time.Hour,
	} {
		require.Equal(t, now.Add(want), refreshAt(wire.Token{Expires: now.Add(life)}, now), life)
	}
	require.Equal(t, now.Add(time.Minute), refreshAt(wire.Token{}, now), "its end is not known")
}
