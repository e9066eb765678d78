package connector

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// WaitStream is the kind of the wait for a stream that breaks again and again before anything new comes.
const WaitStream = "stream_breaks"

// someBarren is how many streams in a row may break before anything new comes. A restart of the server in the middle of
// a transaction looks like one.
const someBarren = 2

// mark changes with each row that no stream has brought before, and with each move of the confirmed position. Repeated
// rows and acknowledgements do not change it.
type mark struct {
	confirmed   lsn.LSN
	unconfirmed int
}

func (c *Connector) mark() mark {
	t := c.tracker.Load()
	if t == nil {
		return mark{}
	}
	return mark{t.Confirmed(), t.Unconfirmed()}
}

// barren is a series of streams that broke before anything new came: the server ends them within a transaction, and the
// next one gets that transaction from its beginning. Such a relay is connected and receives rows, and gets nowhere.
type barren struct {
	streams int
	why     error // the last one broke
	since   time.Time
	began   mark    // when the present stream did
	walEnd  lsn.LSN // the end of the log when the present stream began
}

// next begins another stream.
func (b barren) next(s replication.State, now mark, at time.Time) barren {
	next := barren{streams: s.Barren, why: s.Err, since: b.since, began: now, walEnd: s.Identity.WALEnd}
	if next.since.IsZero() || b.streams == 0 {
		next.since = at
	}
	return next
}

// lasts reports whether the present stream has brought nothing new either. One that has received everything that the
// log held when it began is not stuck.
func (b barren) lasts(now mark, received lsn.LSN) bool {
	return b.streams >= someBarren && b.why != nil && now == b.began && received < b.walEnd
}

func (b barren) reason() string {
	why, _ := fault.Split(b.why)
	return fmt.Sprintf("%d streams in a row broke before anything new came: %s", b.streams, why)
}

// wait is the same for the status, with the remedy.
func (b barren) wait(object string) fault.Wait {
	_, remedy := fault.Split(b.why)
	if remedy.IsZero() {
		remedy = fault.Do("See the server's log: it says why it ends the stream.")
	}
	return fault.Wait{
		Kind: WaitStream, Object: object, Reason: b.reason(), Next: remedy.Next, Commands: remedy.Commands,
		Since: b.since,
	}
}
