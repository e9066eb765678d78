package relay

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Schemas finds out about the schemas that a Router does not know. It is safe for concurrent use.
type Schemas interface {
	// Run keeps what is known up to date until ctx ends.
	Run(ctx context.Context) error

	// Resolve waits until the row that needs the schema can be routed again, however long that takes. Its error is that
	// of ctx.
	Resolve(ctx context.Context, need router.UnresolvedSchema) error

	// Waits lists why rows wait, empty if none does, or if an answer is expected.
	Waits() []fault.Wait
}

// Unresolved is the schema without which a row could not be routed; nil for another error, or if nothing can resolve
// one. It is a function of its own because the pointer is on the heap, which no row that is routed should pay for.
func Unresolved(by Schemas, err error) *router.UnresolvedSchema {
	var need *router.UnresolvedSchema
	if by == nil || !errors.As(err, &need) {
		return nil
	}
	return need
}
