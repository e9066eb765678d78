package wire

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

// DialCoordinator asks w for the coordinator of the key, which is a group or a transactional id according to kind, and
// connects to that broker. It closes w. A refusal is a *CodeError.
func DialCoordinator(
	ctx context.Context, cluster *Cluster, w *Conn, kind int8, key string, timeout time.Duration,
) (*Conn, error) {
	defer func() { _ = w.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	res, err := w.RoundTrip(&findcoordinator.Request{Key: key, KeyType: kind}, timeout)
	if err != nil {
		return nil, err
	}
	found := res.(*findcoordinator.Response)
	if found.ErrorCode != 0 {
		return nil, &CodeError{API: "FindCoordinator", Code: found.ErrorCode}
	}
	return Dial(ctx, cluster, BrokerAddr(found.Host, found.Port))
}
