package replication

import (
	"errors"
	"time"
)

// ErrInterrupted is returned by Receive once after Interrupt. Unlike every other error of Receive it is not final.
var ErrInterrupted = errors.New("replication: receive interrupted")

// Interrupt makes the Receive at hand, or otherwise the next one, return ErrInterrupted, and leaves the stream as it
// is: to be called, from anywhere, when the goroutine that receives has to look at something else, such as a wish to
// stop.
func (s *Stream) Interrupt() {
	s.deadline.Lock()
	defer s.deadline.Unlock()
	if s.finishing {
		return // Receive is not called any more, and Finish has a context of its own
	}
	s.nudged.Store(true)
	_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, whose reads fail anyway
}

// heed takes note of an Interrupt and lets reads wait again, unless something final has ended them meanwhile.
func (s *Stream) heed() error {
	s.deadline.Lock()
	defer s.deadline.Unlock()
	s.nudged.Store(false)
	if s.interrupted.Load() == nil {
		if err := s.conn.SetReadDeadline(time.Time{}); err != nil {
			return s.cfg.retry(err)
		}
	}
	return ErrInterrupted
}
