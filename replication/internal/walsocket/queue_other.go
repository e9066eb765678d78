//go:build !linux

package walsocket

import "net"

// kernelQueueOf returns nil: the reader never sleeps.
func kernelQueueOf(net.Conn) queue { return nil }
