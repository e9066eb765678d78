package kafka

import (
	"math/rand/v2"
	"time"
)

// delay is the pause before the next try after so many failures in a row: doubling from backoffMin to backoffMax,
// half of it random, so that many partitions and many instances do not knock at the same moment. There is no last
// try: how long an outage may last is for the operator to say, and the slot keeps the data until then.
func (c *pace) delay(failures int) time.Duration {
	d := c.backoffMax
	if failures < refusedAttempt {
		d = min(d, c.backoffMin<<failures)
	}
	return d/2 + rand.N(d/2+1)
}

// refusedAttempt is an attempt with the longest delay: credentials that were refused do not get better by knocking.
const refusedAttempt = 16

// slowly is the pause before the next attempt at an operation that fails until an operator fixes its cause.
func (c *pace) slowly() time.Duration { return c.slow/2 + rand.N(c.slow/2+1) }
