package walsocket

import "time"

// The walsender sends one message a row and flushes whenever the socket takes it. Each of these sends through an open
// window costs it a trip through the whole network stack, and a wake-up of the reader: about as much as decoding the
// row. While the window is closed a send only appends to what the kernel has queued, and is nearly free. So while the
// server has plenty to say, the reader stays away for some milliseconds, with a receive buffer small enough to fill
// meanwhile: the walsender then needs about half the CPU per row (measured: 11 against 6 s per million rows) and, being
// one process, becomes nearly twice as fast. At low load the reader never stays away: there, latency counts.
//
// Staying away is not enough: Go's runtime waits in epoll for all sockets all the time, so an idle thread would be
// woken in the reader's place. The socket's low-water mark (SO_RCVLOWAT) makes the kernel keep quiet until it is
// reached; it is up while the stream is busy and down before any read that may have to wait.
//
// The buffer is of fixed size only while the reader waits or naps. A consumer that is delayed leaves it full for
// minutes, and small rows overfill a fixed one: the kernel counts some 500 bytes more for each segment. It then drops
// what arrives, closes the window after it (net/ipv4/tcp_input.c, tcp_prune_queue; tcp_output.c, ICSK_ACK_NOMEM), and
// from there on drops every segment of the server as lying outside the window, with the acknowledgment in it: our
// status updates stay in the send queue after segments that seem lost, and the server ends the session after
// wal_sender_timeout.
//
// Only Linux offers all that this needs (nap_linux.go). Elsewhere the reader never stays away.
const (
	napSlice = time.Millisecond
	napLimit = 8 * time.Millisecond // also the longest that cancellation has to wait for a nap
	// slices without growth that mean that the socket is full, and not that the server had no CPU
	napStill  = 2
	napLeast  = 96 << 10             // bytes below which it is not full in any case
	napRate   = 4 << 20              // bytes per second from which on naps are worth their latency
	napWindow = 5 * time.Millisecond // over which the rate is measured

	// napBuffer is the receive buffer; the kernel doubles it for its own bookkeeping. Naps cap the rate at a bufferful
	// in three milliseconds, some 70 MB/s.
	napBuffer = 128 << 10
	// napRTT is the round-trip time up to which the buffer is fixed. Over longer ways more has to be under way at a
	// time than it holds, so there the kernel goes on sizing it.
	napRTT = time.Millisecond
)

// napper decides when to stay away. Not safe for concurrent use.
type napper struct {
	queue queue
	sleep func(time.Duration)
	now   func() time.Time

	started time.Time // of the window being measured
	bytes   int       // read in it
	rate    float64   // of the last whole window, bytes per second
	raised  bool      // the low-water mark is up
}

// queue is what the kernel has received and no read has taken.
type queue interface {
	bytes() int   // negative where that cannot be known
	lowWater(int) // wake no reader before so many bytes are there
	fix(bool)     // keep the buffer to a size that fills during a nap, or let the kernel size it
}

// before is called when all that was read has been handled and the next read is due.
func (n *napper) before() {
	n.measure()
	if n.rate < napRate {
		n.raise(false)
		return
	}
	n.raise(true)
	if n.nap() <= 0 {
		n.raise(false) // the read will have to wait
	}
}

// nap stays away until the socket is full, which shows in that it does not grow: how much it holds depends on how the
// rows were cut into segments. It returns how much waits then, negative where that cannot be known.
func (n *napper) nap() int {
	have := n.queue.bytes()
	still := 0
	for slept := time.Duration(0); slept < napLimit && still < napStill && have >= 0; slept += napSlice {
		n.sleep(napSlice)
		before := have
		if have = n.queue.bytes(); have >= napLeast && have == before {
			still++
		}
	}
	return have
}

func (n *napper) raise(up bool) {
	if n.raised == up {
		return
	}
	n.raised = up
	if up {
		n.queue.lowWater(napBuffer)
	} else {
		n.queue.lowWater(1)
	}
}

// after receives what a read brought.
func (n *napper) after(bytes int) { n.bytes += bytes }

func (n *napper) measure() {
	now := n.now()
	if d := now.Sub(n.started); d >= napWindow {
		n.rate = float64(n.bytes) / d.Seconds()
		n.started, n.bytes = now, 0
	}
}
