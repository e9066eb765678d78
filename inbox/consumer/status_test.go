package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The waiting letters of a released key are handled without a record after them. When the last one is done, nothing
// waits, and a partition without records stays ready.
//
// Bug (letters): The status kept the last waiting letter as the event at work. Cost: `Ready` failed with nothing to do.
func TestReadyAfterWaitingLetters(t *testing.T) {
	p := &progress{status: PartitionStatus{Topic: "t", Next: 5}}
	p.begins(Message{ID: "a2", Attempt: 1}, nil)
	p.moved()
	p.looked(0, 5)
	s := Status{Generation: 1, Partitions: []PartitionStatus{p.read()}}
	require.NoError(t, s.ready(time.Now().Add(time.Hour), 2*time.Hour))
	require.False(t, s.Partitions[0].Waits())
	require.NoError(t, s.ready(p.read().Progress.Add(time.Hour), time.Minute))
}
