//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
)

var errNotLinux = errors.New("only Linux offers what this needs")

type socket struct{ net.Conn }

func dialSocket(context.Context, string, string, int) (*socket, error) { return nil, errNotLinux }

func (s *socket) queued() int { return 0 }
