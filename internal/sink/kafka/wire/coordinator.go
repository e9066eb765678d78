package wire

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

// DialCoordinator connects to the coordinator that w names. It closes w. Errors are from FindCoordinator and Dial.
func DialCoordinator(
	ctx context.Context, cluster *Cluster, w *Conn, kind int8, key string, timeout time.Duration,
) (*Conn, error) {
	addr, err := FindCoordinator(ctx, w, kind, key, timeout)
	if err != nil {
		return nil, err
	}
	return Dial(ctx, cluster, addr)
}

// FindCoordinator asks w for the address of the coordinator of the key, which is a group or a transactional id
// according to kind. It closes w. A refusal is a *CodeError.
func FindCoordinator(ctx context.Context, w *Conn, kind int8, key string, timeout time.Duration) (string, error) {
	defer func() { _ = w.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	res, err := w.RoundTrip(&findcoordinator.Request{Key: key, KeyType: kind}, timeout)
	if err != nil {
		return "", err
	}
	found := res.(*findcoordinator.Response)
	if found.ErrorCode != 0 {
		return "", &CodeError{API: "FindCoordinator", Code: found.ErrorCode}
	}
	return BrokerAddr(found.Host, found.Port), nil
}
