package service

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

// TestMisfit: what /readyz says is in the status, since the first check that found it.
//
// Bug (monitor): While rows were missing from the stream `/readyz` had the reason, and `status` at the same moment said
// that there is nothing to send. Cost: two views, of which the friendlier was wrong.
func TestMisfit(t *testing.T) {
	var m *misfit
	require.Nil(t, m.wait())
	require.Nil(t, m.next(nil))
	first := m.next(&fault.Error{
		Kind: fault.Operator, Object: `publication "p"`, Err: errors.New("it lacks table outbox"), Next: "Add it.",
		Commands: []string{"ALTER"},
	})
	second := first.next(first.err)
	require.Equal(t, first.since, second.since)
	w := second.wait()
	require.Equal(t, diagnose.TableUnpublished, w.Kind)
	require.Equal(t, `publication "p": rows are missing from the stream: it lacks table outbox`, w.Sentence())
	require.Equal(t, []string{"ALTER"}, w.Commands)
	require.Equal(t, first.since, w.Since)
	gone := &fault.Error{Object: `slot "s"`, Err: errors.New("gone")}
	require.Nil(t, first.next(gone).wait(), "it has waits of its own")
}
