package consumer

import (
	"context"
	"fmt"
)

// answered calls kafka-go, which panics over an answer that is about something else than was asked: a broker's lie is
// an error like any other.
func answered[Q, R any](ctx context.Context, call func(context.Context, Q) (R, error), req Q) (res R, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a broker's answer cannot be read: %v", r)
		}
	}()
	return call(ctx, req)
}
