package walsocket

import (
	"math"
	"time"
)

const (
	// enough is how much the kernel has to hold for the next read to be worth its system call: with less, the socket
	// counts as dry.
	enough = 64 << 10
	// busy is the rate in bytes per second from which on sleeping is worth its latency, if the rows are not late.
	busy = 4 << 20
	// rateWindow is the time over which the rate is measured.
	rateWindow = 5 * time.Millisecond
	// drainAim is how much a sleep is to let pile up. The queues hold 2 MB and more, and a server that has filled them
	// waits; with half of it, the client takes a fifth more CPU if rows are small.
	drainAim = 1 << 20
	// drainAimShort is the aim if long sleeps cost more. A sleep saves the server work for each message. The queues
	// hold few large messages and fill fast with them: at 4 KB a message, a server with CPU to spare sent a third more
	// rows. And over a long way the kernel sizes the buffer by the bytes read in a round trip.
	drainAimShort = drainAim / 2
	largeMessage  = 2 << 10
	// fast is the rate from which on a sleep may be the longest although the rows are not late.
	fast = 50 << 20

	longest  = 20 * time.Millisecond  // also the longest that cancellation has to wait
	shortest = 200 * time.Microsecond // below which a sleep costs more than it saves
	first    = 10 * time.Millisecond
	// rest is how long the reader does not sleep after even the shortest sleep brought nothing.
	rest = time.Second

	// In every sixth cycle of a sleep and a drain the sleep is half as long. The cycles are compared after trial ones,
	// and while no comparison has shown yet that the sleep pays, after quick ones.
	trialEvery = 6
	trial      = 4 * trialEvery
	quick      = trialEvery

	certain     = 3   // standard errors make a difference certain
	littleDoubt = 0.1 // of a quiet machine, whose cycles are all alike
)

// pacer decides how long to sleep before a read. It counts what each read brings. Not safe for concurrent use.
type pacer struct {
	started time.Time // of the window in which the rate is measured
	bytes   int       // read in it
	counted int       // messages up to its start
	rate    float64   // of the last whole window, bytes per second
	large   bool      // the messages in it were

	never   bool
	far     bool          // the kernel sizes the receive buffer
	limit   time.Duration // the longest sleep that has been found to pay, or is to be tried
	found   bool          // it has been found
	late    bool          // arriving rows were committed long ago
	resting time.Time     // until when there is no sleep
	sleeps  int
	begun   time.Time     // of the cycle that is running, zero if none is
	asked   time.Duration // its sleep
	whole   time.Duration // its sleep if that were not half as long
	read    int           // bytes that came in it
	unit    time.Duration // the whole sleep of the first of cycles
	cycles  cycles
}

// cycles are sums over several sleeps, each with the drain after it: the sleep asked for and the cycle's time, in
// seconds, its bytes, and their products.
type cycles struct {
	n                                 float64
	asked, took, bytes                float64
	askedAsked, askedTook, askedBytes float64
	tookTook, tookBytes, bytesBytes   float64
}

func (c *cycles) add(asked, took time.Duration, bytes int) {
	a, t, b := asked.Seconds(), took.Seconds(), float64(bytes)
	c.n++
	c.asked, c.took, c.bytes = c.asked+a, c.took+t, c.bytes+b
	c.askedAsked, c.askedTook, c.askedBytes = c.askedAsked+a*a, c.askedTook+a*t, c.askedBytes+a*b
	c.tookTook, c.tookBytes, c.bytesBytes = c.tookTook+t*t, c.tookBytes+t*b, c.bytesBytes+b*b
}

// backlog reports whether much is arriving that was committed long ago.
func (p *pacer) backlog() bool { return p.late && p.rate >= busy }

// brought counts a read.
func (p *pacer) brought(bytes int) {
	p.bytes += bytes
	p.read += bytes
}

// sleep is how long to sleep before the next read, now that the socket is dry but for has bytes, and so many messages
// have come.
func (p *pacer) sleep(now time.Time, has, messages int) time.Duration {
	p.measure(now, messages)
	p.endCycle(now, has)
	if p.never || p.rate < busy && !p.late || now.Before(p.resting) {
		p.begun = time.Time{}
		return 0
	}
	d := min(p.limit, p.wanted())
	p.sleeps++
	p.whole = d
	if p.sleeps%trialEvery == 0 {
		d /= 2
	}
	p.begun, p.read, p.asked = now, -has, d
	return d
}

func (p *pacer) measure(now time.Time, messages int) {
	if d := now.Sub(p.started); d >= rateWindow {
		p.rate = float64(p.bytes) / d.Seconds()
		p.large = p.bytes > largeMessage*(messages-p.counted)
		p.started, p.bytes, p.counted = now, 0, messages
	}
}

// wanted is the sleep that lets the aim pile up. At a rate that takes longer than the longest sleep for it, the sleep
// grows with the rate: a server with time to spare gains little by it, and its rows wait. Rows that are late lose
// nothing by it, and a server that is slow because it lacks CPU needs it most.
func (p *pacer) wanted() time.Duration {
	aim := float64(drainAim)
	if p.large || p.far {
		aim = drainAimShort
	}
	seconds := min(aim/p.rate, longest.Seconds())
	if !p.late {
		seconds = min(seconds, p.rate/fast*longest.Seconds())
	}
	return time.Duration(seconds * float64(time.Second))
}

// endCycle counts the cycle that has ended, and judges the sleep after some of them.
func (p *pacer) endCycle(now time.Time, has int) {
	if p.begun.IsZero() {
		return
	}
	p.count(now.Sub(p.begun), p.read+has)
	if n := p.cycles.n; n < quick || p.found && n < trial {
		return
	}
	// If other processes want the CPU, a cycle says little: only a result beyond doubt makes the sleep shorter.
	used, doubt := p.cycles.used()
	atMost := used + certain*max(doubt-littleDoubt, 0)
	switch { // thresholds apart, so that noise does not make it swing
	case atMost < 0.5:
		p.limit /= 3
	case atMost < 0.85:
		p.limit = p.limit * 2 / 3
	case used > 0.95 || used+doubt > 1:
		p.found = true
		p.limit = min(longest, p.limit*5/4)
	}
	if p.limit < shortest {
		p.limit, p.found, p.resting = 4*shortest, false, now.Add(rest)
	}
	p.cycles = cycles{}
}

// count adds a cycle. The sleep follows the rate, too, and that must not count as a trial: when rows become slower, the
// sleeps become longer and bring less in the same time, and when they become faster the opposite. So time is counted in
// whole sleeps, and written as if each were as long as the first.
func (p *pacer) count(took time.Duration, bytes int) {
	if p.cycles.n == 0 {
		p.unit = p.whole
	}
	if p.whole <= 0 {
		return
	}
	scale := float64(p.unit) / float64(p.whole)
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) * scale) }
	p.cycles.add(scaled(p.asked), scaled(took), bytes)
}

// used is how much of the longer sleeps the server made use of: the bytes that came in the added time, against the
// bytes of the same time on average. If the queues are full before the sleep ends, the added time brings nothing. doubt
// is the standard error of used.
//
// It is a regression, on the sleep that was asked for, of the bytes of a cycle beyond the average for its time. The
// reader does not choose a cycle's time: the longer the server lacks CPU, the longer a cycle takes and the less it
// brings, whatever the sleep.
func (c *cycles) used() (used, doubt float64) {
	rate := c.bytes / c.took
	spread := c.askedAsked - c.asked*c.asked/c.n
	if c.bytes == 0 || spread <= 0 {
		return 1, math.Inf(1) // nothing can be said
	}
	beyondBeyond := c.bytesBytes - 2*rate*c.tookBytes + rate*rate*c.tookTook
	askedBeyond := c.askedBytes - rate*c.askedTook
	slope := askedBeyond / spread
	deviation := math.Sqrt(max(beyondBeyond-slope*askedBeyond, 0) / (c.n - 2) / spread)
	longer := rate * max((c.askedTook-c.asked*c.took/c.n)/spread, 1) // bytes in a second more of sleep
	return 1 + slope/longer, deviation / longer
}
