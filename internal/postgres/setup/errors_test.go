package setup

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/stretchr/testify/require"
)

// TestErrorsAreOneSentence: pgconn lists an attempt with TLS and one without, on two lines.
func TestErrorsAreOneSentence(t *testing.T) {
	for _, dsn := range []string{"postgres://u@127.0.0.1:1/d", "postgres://u@127.0.0.1:1,127.0.0.1:2/d"} {
		err := Ensure(t.Context(), dsn, planConfig(), false)
		require.ErrorContains(t, err, "127.0.0.1:1")
		sentence, _, _ := strings.Cut(err.Error(), ". Next: ")
		require.NotContains(t, sentence, "\n")
		require.Equal(t, 1, strings.Count(err.Error(), "dial tcp 127.0.0.1:1:"), err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(conn, make([]byte, 8)) // SSLRequest
		_, _ = conn.Write([]byte("N"))
		_ = conn.Close()
	}()
	require.ErrorContains(t, Ensure(t.Context(), "postgres://u@"+listener.Addr().String()+"/d?sslmode=require",
		planConfig(), false), "The server has no TLS: set ssl = on there")
}

// TestRemediesOfChecksCanBePasted: prose is in the sentence, and each command is a statement.
func TestRemediesOfChecksCanBePasted(t *testing.T) {
	st := setUpState()
	st.Server.WALLevel, st.Server.UsedSlots, st.Server.UsedSenders, st.Server.SlotWALKeepMB = "replica", 10, 10, -1
	remedies := 0
	for _, f := range slices.Concat(checkServer(planConfig(), st), checkSlotRoom(st), checkSenderRoom(st),
		[]preflight.Finding{checkWALLimit(Config{}, st)}) {
		if f.ToDo().IsZero() {
			continue
		}
		remedies++
		require.Regexp(t, `^[A-Z].*[.:]$`, f.Remedy)
		for _, command := range f.Commands {
			require.Regexp(t, `^(SELECT|ALTER|CREATE|BEGIN|COMMIT)[^;]*;$`, command)
		}
	}
	require.Equal(t, 4, remedies)
}

// TestSameTextWhereverTheFaultIsMet: setup and check say of a slot what the stream says of it.
func TestSameTextWhereverTheFaultIsMet(t *testing.T) {
	cfg, st := planConfig(), setUpState()
	st.Slot.WALStatus = postgres.WALLost
	var f *fault.Error
	require.ErrorAs(t, preflight.FirstFailure(verdict(cfg, st)), &f)
	require.Equal(t, cfg.SlotInvalidated(st.Slot, st.Server.ServerFacts).ToDo().String(), f.Remedy().String())
	st.Slot = postgres.Slot{Name: "s"}
	require.ErrorAs(t, preflight.FirstFailure(verdict(cfg, st)), &f)
	require.Equal(t, cfg.SlotGone(postgres.ServerFacts{}).ToDo().String(), f.Remedy().String())
}
