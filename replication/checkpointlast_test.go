package replication

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestCheckpointHasWhatAStreamConfirmed: each way out of a stream leaves the confirmed position in the table, so that
// the next start, of this process or another, repeats nothing of it.
//
// Bug (stream): A stream that an error ended left up to 100 ms of what it had confirmed unwritten. Cost: with
// `on_fault: stay` thousands of events twice in one life of the process, after a publication was dropped while catching
// up and made again.
func TestCheckpointHasWhatAStreamConfirmed(t *testing.T) {
	t.Parallel()
	broken := func(kind fault.Kind) func(*source, *Stream) error {
		return func(*source, *Stream) error {
			return &fault.Error{Kind: kind, Object: "stream", Err: errors.New("broken")}
		}
	}
	// provoked has the server end the stream.
	provoked := func(sql string) func(*source, *Stream) error {
		return func(s *source, st *Stream) error {
			s.Exec(t, strings.ReplaceAll(strings.ReplaceAll(sql, "SLOT", s.Config.Slot), "PUBLICATION_",
				identifier.Quote(s.Config.Publication)))
			s.insert(t)
			for {
				if _, err := st.Receive(); err != nil {
					return err
				}
			}
		}
	}
	for name, test := range map[string]struct {
		end  func(*source, *Stream) error
		kind fault.Kind
	}{
		"retry":    {broken(fault.Retry), fault.Retry},
		"operator": {broken(fault.Operator), fault.Operator},
		"fatal":    {broken(fault.Fatal), fault.Fatal},
		"ended by the server": {
			provoked(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'SLOT'`),
			fault.Retry,
		},
		"publication dropped": {provoked(`DROP PUBLICATION PUBLICATION_`), fault.Operator},
		"publication emptied": {
			provoked(`ALTER PUBLICATION PUBLICATION_ DROP TABLE outbox;
				SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'SLOT'`),
			fault.Retry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := remembering(t, testkit.Postgres(t))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s.insert(t)
			err := Run(ctx, s.Config, func(_ context.Context, st *Stream) error {
				require.NoError(t, st.Compare(ctx, Mark{}, "none"))
				before := s.confirmed.Load()
				_, err := s.ids(st, 1)
				require.NoError(t, err)
				acknowledged := s.confirmed.Swap(before) // by Kafka, only when the stream has ended
				err = test.end(s, st)
				require.Equal(t, test.kind, fault.KindOf(err), "%v", err)
				s.confirmed.Store(acknowledged)
				stop()
				return err
			})
			if test.kind != fault.Retry {
				require.Error(t, err)
			}
			require.Equal(t, lsn.LSN(s.confirmed.Load()), s.remembered(t))
		})
	}
}
