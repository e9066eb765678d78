package outbox

import (
	"testing"

	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
	"github.com/stretchr/testify/require"
)

// An event in the topic of the dead letters would be taken for one of them, or for the word that one was published.
//
// Bug (router): A row could lead to the dead-letter topic and be treated there as a letter, or as the note that a
// letter was published. Cost: content chosen by a row's author is retried, or a letter is hidden.
func TestNoEventLeadsToTheDeadLetters(t *testing.T) {
	r, err := New(Config{Columns: DefaultColumns(), Topic: "${aggregate_type}", DeadLetterTopic: "letters"})
	require.NoError(t, err)
	row := plainRow()
	for range 2 {
		row[1].Data = []byte("letters")
		_, err = r.Route(rowtest.Table(), row, rowtest.Source)
		require.Equal(t, router.IllegalTopic, rowtest.Reason(t, err))
		row[1].Data = []byte("letters2")
		_, err = r.Route(rowtest.Table(), row, rowtest.Source)
		require.NoError(t, err)
	}
	_, err = New(Config{Columns: DefaultColumns(), Topic: "letters", DeadLetterTopic: "letters"})
	require.ErrorContains(t, err, "router.topic")
}
