package token

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

const (
	// fetchTimeout bounds one attempt. It is shorter than a connection may take, so that the error names the endpoint.
	fetchTimeout = 8 * time.Second
	// The pauses between failed attempts double.
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
	// leastLife is the time that a token has left at least when it is shown. A broker takes no renewal within a second
	// of a login, so a session that is hardly longer than that would end before it can be renewed.
	leastLife = 2 * time.Second
	// grace is how long a login waits for a newer token while the one there is can be shown: an endpoint that hangs
	// must not take most of the time that a connection has.
	grace = time.Second
	// unknownLife is how long a token is shared whose end is not known.
	unknownLife = time.Minute
)

// refreshAt is when to ask for the next token: the session of a connection that logged in before lasts until the
// token's end at most and is renewed after 85 % of that, so its renewal always gets a newer token.
func refreshAt(t wire.Token, now time.Time) time.Time {
	if t.Expires.IsZero() {
		return now.Add(unknownLife)
	}
	life := t.Expires.Sub(now)
	return now.Add(min(life/10*8, life-leastLife-time.Second))
}

// Cache shares tokens that fetch gets. It implements wire.Tokens.
type Cache struct {
	fetch func(context.Context) (wire.Token, error)

	mu       sync.Mutex
	token    wire.Token
	recent   time.Time        // until when the token is used without asking for another
	flying   chan struct{}    // closed when the attempt under way has ended; nil for none
	err      *wire.TokenError // of the last attempt
	failures int
	nextAt   time.Time // no attempt before, after a failure
}

// newCache is for a fetch whose errors are *wire.TokenError.
func newCache(fetch func(context.Context) (wire.Token, error)) *Cache { return &Cache{fetch: fetch} }

// Get implements wire.Tokens. While attempts fail or hang, the token there is serves until its end.
func (c *Cache) Get(ctx context.Context) (wire.Token, error) {
	if flying := c.ahead(); flying != nil {
		select {
		case <-ctx.Done():
			return wire.Token{}, context.Cause(ctx)
		case <-flying:
		case <-c.enough():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	usable := c.token.Value != "" && (now.Before(c.recent) || now.Add(leastLife).Before(c.token.Expires))
	if !usable && c.err != nil {
		return wire.Token{}, c.err
	}
	return c.token, nil
}

// enough ends the wait for a newer token, never where the one there is would be of no use after it.
func (c *Cache) enough() <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token.Value == "" || !time.Now().Add(grace+leastLife).Before(c.token.Expires) {
		return nil
	}
	return time.After(grace)
}

// Ahead implements wire.Tokens.
func (c *Cache) Ahead() bool {
	c.ahead()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token.Value != "" && time.Now().Before(c.recent)
}

// Trouble implements wire.Tokens.
func (c *Cache) Trouble() *wire.TokenError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// ahead starts an attempt where one is due, and returns the attempt under way, nil for none.
func (c *Cache) ahead() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.flying == nil && !now.Before(c.recent) && !now.Before(c.nextAt) {
		c.flying = make(chan struct{})
		go c.attempt(c.flying)
	}
	return c.flying
}

func (c *Cache) attempt(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	token, err := c.fetch(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(done)
	c.flying = nil
	now := time.Now()
	if err != nil {
		if !errors.As(err, &c.err) {
			c.err = &wire.TokenError{Kind: sink.NoToken, Source: "source of tokens", Err: err}
		}
		c.nextAt = now.Add(pause(c.failures))
		c.failures++
		return
	}
	c.token, c.recent = token, refreshAt(token, now)
	c.err, c.failures, c.nextAt = nil, 0, time.Time{}
}

func pause(failures int) time.Duration {
	d := min(firstPause<<min(failures, 10), longestPause)
	return d/2 + rand.N(d/2+1)
}
