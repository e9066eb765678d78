package rabbitmq

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// receive reads the answers of a channel until it is closed.
func (f *flow) receive(pub *publisher) {
	var buf []settled
	for c := range pub.confirms {
		buf = pub.confirmed(c, buf[:0])
		f.settle(buf)
		clear(buf)
	}
	select {
	case err := <-pub.closed:
		f.closedBy(err)
	default:
		f.closedBy(nil)
	}
}

// tooLarge is compiled when it is needed: other sinks start with this package, too.
var tooLarge = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`message size \d+ .*larger than.* (?:max|maximum|configured).* (\d+)`)
})

// closedBy ends the connection with a channel: what was in flight on it is sent again on the next one.
func (f *flow) closedBy(err *amqp.Error) {
	why := errClosed
	if err != nil {
		why = err
		if m := tooLarge().FindStringSubmatch(err.Reason); m != nil {
			f.p.learn(m[1])
		}
	}
	f.failed <- why
}

// learn notes the largest message, which the server names only when it refuses one. The session is over: the record is
// refused when it is produced again.
func (p *Producer) learn(text string) {
	limit, err := strconv.Atoi(text)
	if err != nil || limit <= 0 {
		return
	}
	p.mu.Lock()
	p.limits.message, p.learned = limit, time.Now()
	p.mu.Unlock()
	p.end(fmt.Errorf("%w: a message is larger than the server takes, %d bytes", sink.ErrSessionOver, limit))
}

// settle applies answers. A message that came back is in no queue, although the server confirms it.
func (f *flow) settle(answers []settled) {
	for i := range answers {
		a := &answers[i]
		stored := 0
		switch {
		case a.returned != nil:
			f.p.report(unroutableTrouble(a.message, a.returned))
		case !a.acked:
			f.p.report(refusedTrouble(a.message))
		default:
			stored = a.batch.Records
			f.p.routed(a.message)
		}
		f.p.queue.Settle(a.batch, stored)
	}
}
