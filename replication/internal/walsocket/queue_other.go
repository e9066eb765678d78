//go:build !linux

package walsocket

import "net"

// kernelQueueOf returns nil: the reader never sleeps.
func kernelQueueOf(net.Conn) (kernel queue, far bool) { return nil, false }
