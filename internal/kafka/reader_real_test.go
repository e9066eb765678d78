//go:build e2e

package kafka

import "testing"

// TestReadCommittedReal: the same interleaved transactions on a real broker, whose list of aborted ones kfake only imitates.
func TestReadCommittedReal(t *testing.T) {
	checkAborting(t, realKafka(t, "t", 1).Addrs())
}
