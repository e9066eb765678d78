package consumer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// rewind sets the group's offset to the beginning, as if no commit had arrived.
func (r *holdRig) rewind() {
	r.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 0, -1)
	require.NoError(r, r.Admin().CommitAllOffsets(r.Context(), "billing", offsets))
	r.produced = 0
}

// A letter is written, the offset is not committed, the process ends, and the letter is dismissed before the next one
// comes to the record. The operator's decision remains: the record is not tried again, whatever its handler would say
// now, holds nothing, and does not come after the events that waited for it.
//
// Bug (letters): With `HoldKeys`, a record whose letter was dismissed before its offset was committed was tried again.
// Cost: its effect came after the events that had waited for it, or it held its key unseen.
func TestDismissedBeforeTheCommit(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][]string{"would be handled": nil, "would fail again": {"a1", "a3"}} {
		t.Run(name, func(t *testing.T) {
			r := newHoldRig(t, 1)
			r.refuse("a1")
			stop := startBatch(t, r.opts, r.handle)
			r.send("a", "a1", "a2", "a3")
			require.NoError(t, stop())
			r.dismiss("a1", "a3")
			r.rewind()
			r.refuse(bad...)
			startBatch(t, r.opts, r.handle)
			r.passed(3)
			r.send("a", "a4")
			r.awaitEffects("a2", "a4")
			require.Empty(t, r.open())
			require.EqualValues(t, 0, value(t, r.registry, "cdc_outbox_consumer_held_keys"))
			require.Eventually(t, func() bool {
				return value(t, r.registry, "cdc_outbox_inbox_open_dead_letters") == 0
			}, 30*time.Second, 10*time.Millisecond)
		})
	}
}

// An operator sets the group's offset back while a retried event still fails. Its key is held again, and the letter
// that holds it is an open one: listed, counted, and chosen by a retry, although an earlier copy of it was marked.
//
// Bug (letters): A letter that held its key again after a rewind counted as a copy of the earlier letter. Cost: the key
// was held, and nothing was listed as open. Also: `TestLedgerOfAKeyThatIsHeldAgain` in `internal/deadletter`.
func TestHeldAgainAfterARewind(t *testing.T) {
	t.Parallel()
	r := newHoldRig(t, 1)
	r.refuse("a1")
	stop := startBatch(t, r.opts, r.handle)
	r.send("a", "a1")
	require.Equal(t, 1, r.retry())
	r.passed(1)
	require.NoError(t, stop())
	r.rewind()
	stop = startBatch(t, r.opts, r.handle)
	r.passed(2)
	r.send("a", "a2")
	require.Empty(t, r.effects())
	require.Equal(t, []string{"a1 permanent", "a2 waiting"}, r.open())
	require.NoError(t, stop())
	startBatch(t, r.opts, r.handle)
	require.Eventually(t, func() bool { return value(t, r.registry, "cdc_outbox_inbox_open_dead_letters") == 2 },
		30*time.Second, 10*time.Millisecond)
	r.refuse()
	require.Equal(t, 1, r.retry())
	r.passed(1)
	r.awaitEffects("a1", "a2")
	require.Empty(t, r.open())
}
