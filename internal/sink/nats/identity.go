package nats

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Identity is the stream that a session has found: one that is made again has the same name and is another.
type Identity struct{ id atomic.Pointer[string] }

// ID returns name and birth of the stream, empty before the first session.
func (i *Identity) ID() string {
	if id := i.id.Load(); id != nil {
		return *id
	}
	return ""
}

func (i *Identity) set(info *jetstream.StreamInfo) {
	if i != nil {
		i.id.Store(new(fmt.Sprintf("stream %s of %s", info.Config.Name, info.Created.UTC().Format(time.RFC3339Nano))))
	}
}
