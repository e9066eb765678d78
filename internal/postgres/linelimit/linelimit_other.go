//go:build !linux && !darwin

package linelimit

// setUserTimeout leaves the connection as it is: keepalive probes notice a dead line where nothing is in flight,
// and wal_sender_timeout ends the session on the server's side.
func setUserTimeout(uintptr) {}
