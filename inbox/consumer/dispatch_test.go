package consumer

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox/internal/failure"
)

func TestByType(t *testing.T) {
	var got string
	to := func(name string) Handler {
		return func(context.Context, Message) error { got = name; return nil }
	}
	handlers := map[string]Handler{"paid": to("paid")}
	require.NoError(t, ByType(handlers, nil)(t.Context(), Message{Type: "paid"}))
	require.Equal(t, "paid", got)
	require.NoError(t, ByType(handlers, to("others"))(t.Context(), Message{}))
	require.Equal(t, "others", got)
	require.NoError(t, ByType(handlers, Ignore)(t.Context(), Message{Type: "moved"}))
	err := ByType(handlers, nil)(t.Context(), Message{Type: "moved"})
	require.ErrorContains(t, err, `no handler for events of type "moved"`)
	require.True(t, failure.IsPermanent(err), "no repeat would help")
}

func TestJSON(t *testing.T) {
	type order struct {
		Total int `json:"total"`
	}
	var got []int
	handle := JSON(func(_ context.Context, tx string, _ Message, o order) error {
		require.Equal(t, "tx", tx)
		got = append(got, o.Total)
		return nil
	})
	for _, value := range [][]byte{[]byte(`{"total": 3, "more": "secret"}`), nil} {
		require.NoError(t, handle(t.Context(), "tx", Message{Value: value}))
	}
	require.Equal(t, []int{3, 0}, got)
	for value, want := range map[string]string{
		`{"total": "secret"}`: `member "total" is not a int`, `{"total": secret}`: "it is not JSON, at byte",
		``: "it is not JSON", `{"total": 3`: "it is not JSON", `"secret"`: "is not a consumer.order",
		`{"total": 99999999999999999999}`: `member "total" is not a int`,
	} {
		err := handle(t.Context(), "tx", Message{Value: []byte(value)})
		require.ErrorContains(t, err, want, value)
		require.NotContains(t, err.Error(), "secret")
		require.True(t, failure.IsPermanent(err), value)
	}
	require.Len(t, got, 2)
}
