package main

import "golang.org/x/sys/unix"

// settle waits until the kernel has written its dirty pages.
func settle() { unix.Sync() }
