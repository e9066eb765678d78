package wire

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Silence is a broker that took a connection and does not answer on it. How this program noticed, a deadline or a
// connection that it closed itself, is of no use to an operator and is not part of the text.
type Silence struct {
	Addr     string
	For      time.Duration
	Opening  bool      // the connection was new
	Answered time.Time // the last answer on any connection to this broker, zero for none since the start
}

func (s *Silence) Error() string { return fmt.Sprintf("the broker at %s %s", s.Addr, s.What()) }

// What is the sentence without its subject.
func (s *Silence) What() string {
	var b strings.Builder
	if s.Opening {
		fmt.Fprintf(&b, "accepts connections and does not answer within %s", human.Duration(s.For))
	} else {
		fmt.Fprintf(&b, "has not answered for %s", human.Duration(s.For))
	}
	if !s.Answered.IsZero() {
		fmt.Fprintf(&b, ": it hangs or is overloaded; it answered until %s", human.Time(s.Answered))
	}
	return b.String()
}

// Timeout marks the error as a missing answer.
func (s *Silence) Timeout() bool { return true }

// Remedy is the next step about the broker.
func (s *Silence) Remedy() fault.Remedy {
	if s.Answered.IsZero() {
		return fault.Do("Check that this is a Kafka listener, and whether it expects TLS or SASL. A broker that " +
			"hangs looks the same.")
	}
	return fault.Do("Look at that broker's log, disk and garbage collection, and restart it if its process hangs. If " +
		"it is well, look for a firewall that drops packets between here and it.")
}

// Answers remembers when each broker answered last.
type Answers struct{ at sync.Map } // address to *atomic.Int64, in Unix nanoseconds

func (a *Answers) lastAnswer(addr string) *atomic.Int64 {
	if a == nil {
		return new(atomic.Int64)
	}
	at, _ := a.at.LoadOrStore(addr, new(atomic.Int64))
	return at.(*atomic.Int64)
}

// Last returns when the broker answered last, zero for never.
func (a *Answers) Last(addr string) time.Time { return moment(a.lastAnswer(addr)) }

func moment(at *atomic.Int64) time.Time {
	if n := at.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Silent is the error for an answer that did not come for so long.
func (w *Conn) Silent(after time.Duration) *Silence {
	return &Silence{Addr: w.Addr, For: after, Opening: w.opening, Answered: moment(w.answered)}
}

// timely replaces the error of a deadline that has passed.
func (w *Conn) timely(err error, timeout time.Duration) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return w.Silent(timeout)
	}
	return err
}
