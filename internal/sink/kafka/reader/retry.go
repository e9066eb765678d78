package reader

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Waits returns the wait of the Reader, nil for none. Any goroutine may ask.
func (r *Reader) Waits() *sink.Wait { return r.wait.Load() }

// The pauses between attempts double from firstPause to longestPause.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// retry repeats f while its failure may pass, for as long as a broker may take to answer a request; then the
// error is one for a person.
func (r *Reader) retry(ctx context.Context, object string, f func() error) error {
	began := time.Now()
	r.wait.Store(&sink.Wait{Object: object, Since: began})
	defer r.wait.Store(nil)
	until := began.Add(r.cluster.RequestTimeout)
	for delay := firstPause; ; delay = min(2*delay, longestPause) {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if kind, next := judgeRead(err); kind != fault.Retry || time.Now().After(until) {
			if kind == fault.Retry {
				kind = fault.Fatal
			}
			var code *wire.CodeError
			if errors.As(err, &code) && code.Code == wire.UnknownTopic {
				err = sink.ErrNoTopic
			}
			return &fault.Error{Kind: kind, Object: object, Err: err, Next: next.Next, Commands: next.Commands}
		}
		r.wait.Store(&sink.Wait{Object: object, Err: err, Since: began})
		r.leaders = map[string][]string{}
		if !wire.SleepUntil(ctx, time.Now().Add(delay)) {
			return context.Cause(ctx)
		}
	}
}

// judgeRead classifies an error of reading.
func judgeRead(err error) (fault.Kind, fault.Remedy) {
	var (
		dialed *wire.DialError
		code   *wire.CodeError
		data   wire.DataError
		gone   *goneError
	)
	switch {
	case errors.As(err, &dialed):
		if dialed.Kind == sink.NotAuthenticated {
			return fault.Operator, fault.Do(dialed.Remedy)
		}
		return fault.Retry, fault.Do(dialed.Remedy)
	case errors.As(err, &data):
		return fault.Fatal, fault.Do("Read the topic with another client to see whether the broker or this program " +
			"is wrong.")
	case errors.As(err, &gone):
		return fault.Operator, fault.Do("Read again from the offset at which the log starts now, or give the topic a " +
			"longer retention first.")
	case errors.As(err, &code):
		switch v := wire.VerdictOf(code.Code); {
		case code.Code == wire.UnknownTopic:
			return fault.Operator, fault.Do("Check the name; create the topic if it is missing.")
		case v.Trouble == sink.NotAuthorized:
			return fault.Operator, fault.Do("Allow the user to read and describe the topic.",
				"kafka-acls.sh --add --operation Read --operation Describe --topic NAME")
		case v.Action == wire.Rewind || v.Action == wire.Refresh:
			return fault.Retry, fault.Do("Look at the brokers' logs and the partition's leader.")
		}
		return fault.Fatal, fault.Do("Look at the brokers' logs.")
	}
	return fault.Retry, fault.Do("Check that the broker runs and is reachable from here.")
}
