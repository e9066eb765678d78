//go:build unix

package main

import (
	"runtime/debug"
	"syscall"
)

// crashBySignal lets a crash of the program end it by SIGABRT. Go ends a program with code 2 otherwise, which is the
// code for a mistake in the configuration: a service manager would not start it again. A signal of this kind is
// followed by a core file, which would have payloads and passwords in it, so there is none.
func crashBySignal() {
	debug.SetTraceback("crash")
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // a process may always ask for less
}
