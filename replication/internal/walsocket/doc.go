// Package walsocket is the connection to a walsender below TLS: it decides when to read, and how long to stay away.
//
// The walsender sends one message a row and flushes whenever the socket takes it. Each of these sends through an open
// window costs it a trip through the whole network stack, and a wake-up of the reader: about as much as decoding the
// row. While the window is closed a send only appends to the kernel's queue, and is nearly free. So while the server
// has plenty to say, the reader sleeps for some milliseconds, with a receive buffer small enough to fill meanwhile. The
// server's send queue takes the messages that do not fit, megabytes on a usual Linux. Each read opens the window and
// the kernel moves the next bufferful over, so the reader reads again until little is left (until the socket is dry),
// and sleeps once. The walsender then needs about half the CPU per row and, being one process, becomes nearly twice as
// fast. At low load the reader never sleeps: there, latency counts. Rows that were committed long before they arrive
// are not low load, however few come: the server has more of them, or lacks the CPU to send them.
//
// How long it may sleep depends on how much the two queues hold, and on how fast the server fills them. Neither can be
// asked for, as the send queue is the server's. So the pace is measured: the sleep varies, and shows whether a longer
// one brings more. If other processes want the CPU, too, the result is mostly chance. Then the sleeps stay long: short
// ones cost both sides more CPU, which makes the server slower still.
//
// Sleeping is not enough: Go's runtime waits in epoll for all sockets all the time, so an idle thread would be woken in
// the reader's place. The socket's low-water mark (SO_RCVLOWAT) makes the kernel keep quiet until it is reached; it is
// up while the reader sleeps and down before any read that may have to wait. A mark above the buffer's size would
// otherwise be reached only by the kernel's timers. A Unix-domain socket has no such mark: there the reader never
// sleeps.
//
// The buffer is of fixed size only while the reader waits or sleeps. A consumer that is delayed leaves it full for
// minutes, and small rows overfill a fixed one: the kernel counts some 500 bytes more for each segment. It then drops
// arriving segments, closes the window after that (net/ipv4/tcp_input.c, tcp_prune_queue; tcp_output.c,
// ICSK_ACK_NOMEM), and from there on drops every segment of the server as lying outside the window, with the
// acknowledgment in it: our status updates stay in the send queue after segments that seem lost, and the server ends
// the session after wal_sender_timeout.
//
// Only Linux offers all that this needs. Elsewhere the reader never sleeps.
package walsocket
