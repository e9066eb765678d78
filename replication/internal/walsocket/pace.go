package walsocket

import "time"

const (
	// enough is how much the kernel has to hold for the next read to be worth its system call: with less, the socket
	// counts as dry.
	enough = 64 << 10
	// busy is the rate in bytes per second from which on sleeping is worth its latency.
	busy = 4 << 20
	// rateWindow is the time over which the rate is measured.
	rateWindow = 5 * time.Millisecond
	// drainAim is how much a sleep is to let pile up. More saves the server nothing.
	drainAim = 2 << 20

	longest  = 20 * time.Millisecond  // also the longest that cancellation has to wait
	shortest = 200 * time.Microsecond // below which a sleep costs more than it saves
	first    = 10 * time.Millisecond
	// rest is how long the reader does not sleep after even the shortest sleep brought nothing.
	rest = time.Second

	// In every sixth cycle of a sleep and a drain the sleep is half as long. The two are compared after trial cycles,
	// and while no comparison has shown yet that the sleep pays, after quick ones.
	trialEvery = 6
	trial      = 4 * trialEvery
	quick      = trialEvery
)

// pacer decides how long to sleep before a read. It counts what each read brings. Not safe for concurrent use.
type pacer struct {
	started time.Time // of the window in which the rate is measured
	bytes   int       // read in it
	rate    float64   // of the last whole window, bytes per second

	never   bool
	limit   time.Duration // the longest sleep that has been found to pay, or is to be tried
	found   bool          // it has been found
	resting time.Time     // until when there is no sleep
	cycles  int
	begun   time.Time // of the cycle that is running, zero where none is
	half    bool      // its sleep is half as long
	read    int       // bytes that came in it
	full    cycles
	halved  cycles
}

// cycles are sums over several sleeps, each with the drain after it.
type cycles struct {
	n     int
	took  time.Duration
	bytes int
}

func (c cycles) mean() (seconds, bytes float64) {
	return c.took.Seconds() / float64(c.n), float64(c.bytes) / float64(c.n)
}

// brought counts a read.
func (p *pacer) brought(bytes int) {
	p.bytes += bytes
	p.read += bytes
}

// sleep is how long to sleep before the next read, now that the socket is dry but for what it has.
func (p *pacer) sleep(now time.Time, has int) time.Duration {
	p.measure(now)
	p.finish(now, has)
	if p.never || p.rate < busy || now.Before(p.resting) {
		p.begun = time.Time{}
		return 0
	}
	d := min(p.limit, p.wanted())
	p.cycles++
	p.begun, p.read, p.half = now, -has, p.cycles%trialEvery == 0
	if p.half {
		d /= 2
	}
	return d
}

func (p *pacer) measure(now time.Time) {
	if d := now.Sub(p.started); d >= rateWindow {
		p.rate = float64(p.bytes) / d.Seconds()
		p.started, p.bytes = now, 0
	}
}

// wanted is the sleep that lets drainAim pile up. At a rate that takes longer than the longest sleep for it, the sleep
// grows with the rate: a server with time to spare gains little by it, and its rows wait.
func (p *pacer) wanted() time.Duration {
	const whole = drainAim / 2 / (float64(longest) / float64(time.Second)) // the rate from which on it is the longest
	aim := time.Duration(drainAim / p.rate * float64(time.Second))
	slow := time.Duration(p.rate / whole * float64(longest))
	return min(aim, slow, longest)
}

// finish counts the cycle that has ended, and judges the sleep after some of them.
func (p *pacer) finish(now time.Time, has int) {
	if p.begun.IsZero() {
		return
	}
	sum := &p.full
	if p.half {
		sum = &p.halved
	}
	sum.n++
	sum.took += now.Sub(p.begun)
	sum.bytes += p.read + has
	n := p.full.n + p.halved.n
	if n < quick || p.found && n < trial || p.full.n == 0 || p.halved.n == 0 {
		return
	}
	switch used := used(p.full, p.halved); { // thresholds apart, so that noise does not make it swing
	case used > 0.95:
		p.found = true
		p.limit = min(longest, p.limit*5/4)
	case used < 0.5:
		p.limit /= 3
	case used < 0.85:
		p.limit = p.limit * 2 / 3
	}
	if p.limit < shortest {
		p.limit, p.found, p.resting = 4*shortest, false, now.Add(rest)
	}
	p.full, p.halved = cycles{}, cycles{}
}

// used is how much of the longer sleeps the server made use of: what the time by which they are longer brought, against
// what the same time brings on average. Where the queues are full before the sleep ends, it brings nothing.
func used(full, halved cycles) float64 {
	longer, more := full.mean()
	shorter, less := halved.mean()
	average := float64(full.bytes+halved.bytes) / (full.took + halved.took).Seconds()
	return (more - less) / ((longer - shorter) * average)
}
