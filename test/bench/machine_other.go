//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"syscall"
	"time"
)

var errNotLinux = errors.New("only Linux offers what this needs")

type socket struct{ net.Conn }

func dialSocket(context.Context, string, string, int) (*socket, error) { return nil, errNotLinux }

func (s *socket) queued() int { return 0 }

func windowEdge(syscall.RawConn) (uint64, error)    { return 0, errNotLinux }
func ownLike(string, string) error                  { return nil }
func namespaceCommand(...string) (*exec.Cmd, error) { return nil, errSkipped }
func enterNamespace() error                         { return errNotLinux }
func pause(d time.Duration)                         { time.Sleep(d) }
func settle()                                       {}
