package replication

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func nothingConfirmed() lsn.LSN { return 0 }

func drain(_ context.Context, s *Stream) error {
	for {
		if _, err := s.Receive(); err != nil {
			return err
		}
	}
}

// TestRunLosesNoByteAtHandOver: the server's first messages often come in the same packet as its answer to
// START_REPLICATION.
func TestRunLosesNoByteAtHandOver(t *testing.T) {
	var first []byte
	for at := lsn.LSN(100); at < 1100; at++ {
		first = append(first, commitAt(at)...)
	}
	w := newWalsender(t, visit{stream: first})
	var got []lsn.LSN
	err := Run(t.Context(), w.config(nothingConfirmed), func(_ context.Context, s *Stream) error {
		for len(got) < 1000 {
			m, err := s.Receive()
			if err != nil {
				return err
			}
			got = append(got, m.Commit.EndLSN)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, lsn.LSN(100), got[0])
	require.Equal(t, lsn.LSN(1099), got[999])
}

// Bug (monitor): `check` or `slot`, decoding the first change while a connector retried, was taken for another
// instance: the page said so for a second. Cost: a wrong cause, which the check itself had made.
func TestRunRecoversFromTransientFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goodbye := errorResponse("57P01", "terminating connection due to administrator command")
		w := newVirtualWalsender(t,
			visit{refuse: errorResponse("57P03", "the database system is starting up")},
			visit{refuse: errorResponse("53300", "too many walsenders")},
			visit{stream: goodbye},
			visit{stream: nil}, // hangs up
			visit{start: errorResponse("55006", `replication slot "s" is active for PID 4710`)}, // it looks at the slot
			visit{start: errorResponse("55006", `replication slot "s" is active for PID 4711`)},
			visit{start: errorResponse("55006", `replication slot "s" is active for PID 4711`)},
			visit{stream: commitAt(200)},
		)
		var phases []string
		cfg := w.config(nothingConfirmed)
		cfg.OnState = func(s State) {
			if s.Phase == WaitingForSlot {
				require.Equal(t, 4711, s.HolderPID)
			}
			if s.Phase == Waiting {
				require.Error(t, s.Err)
				require.Positive(t, s.RetryIn)
			}
			phases = append(phases, s.Phase.String())
		}
		err := Run(t.Context(), cfg, func(_ context.Context, s *Stream) error {
			_, err := s.Receive()
			return err
		})
		require.NoError(t, err)
		require.Equal(t, "connecting waiting connecting waiting connecting streaming waiting connecting streaming "+
			"waiting connecting connecting connecting standby connecting streaming", strings.Join(phases, " "))
	})
}

// TestRunWaitsLittleAfterProgress: sessions that end again and again must not make the relay slower and slower.
//
// Bug (stream): Sessions that were ended again and again within a second increased the backoff although each session
// made progress. Cost: minutes of lag.
func TestRunWaitsLittleAfterProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var confirmed atomic.Uint64
		w := newVirtualWalsender(t, visit{stream: commitAt(200)})
		cfg := w.config(func() lsn.LSN { return lsn.LSN(confirmed.Load()) })
		var longest time.Duration
		cfg.OnState = func(s State) { longest = max(longest, s.RetryIn) }
		streams := 0
		require.NoError(t, Run(t.Context(), cfg, func(ctx context.Context, s *Stream) error {
			confirmed.Add(1)
			if streams++; streams == 8 {
				return nil
			}
			return drain(ctx, s)
		}))
		require.LessOrEqual(t, longest, 150*time.Millisecond)
	})
}

// TestRunOverAReplacedDSN: a file that is being written, or a certificate whose key is not there yet, passes. At the
// start it is a mistake.
//
// Bug (configuration): A connection string or certificate that could not be read while it was being replaced counted as
// a mistake in the configuration. Cost: a rotation ended a running relay with 2, also with `on_fault: stay`. Also:
// `TestDSNFault` in `internal/postgres`.
func TestRunOverAReplacedDSN(t *testing.T) {
	for name, broken := range map[string]string{
		"half a file": "postgres://u:s3cret-wo", "no certificate": "host=h sslrootcert=/nowhere/ca.pem",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newVirtualWalsender(t, visit{stream: commitAt(200)})
				cfg := w.config(nothingConfirmed)
				plain, streams, why := cfg.DSN, 0, ""
				cfg.OnState = func(s State) {
					if s.Phase == Waiting && streams == 1 {
						why = s.Err.Error()
					}
				}
				cfg.DSN = func() (string, error) {
					if streams == 1 && !strings.Contains(why, "postgres.dsn: it ") {
						return broken, nil
					}
					return plain()
				}
				require.NoError(t, Run(t.Context(), cfg, func(ctx context.Context, s *Stream) error {
					if streams++; streams == 2 {
						return nil
					}
					return drain(ctx, s)
				}))
				require.Equal(t, 2, streams)
				require.NotContains(t, why, "s3cret")

				cfg.DSN = func() (string, error) { return broken, nil }
				err := Run(t.Context(), cfg, drain)
				require.Equal(t, fault.Config, fault.KindOf(err))
			})
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWalsender(t, visit{refuse: errorResponse("57P03", "the database system is starting up")})
	cfg := w.config(nothingConfirmed)
	cfg.OnState = func(s State) {
		if s.Phase == Waiting {
			cancel()
		}
	}
	require.NoError(t, Run(ctx, cfg, drain))

	ctx, cancel = context.WithCancel(t.Context())
	w = newWalsender(t, visit{stream: commitAt(200)})
	require.NoError(t, Run(ctx, w.config(nothingConfirmed), func(ctx context.Context, s *Stream) error {
		cancel()
		return drain(ctx, s)
	}))
}

func TestRunReturnsConsumerErrors(t *testing.T) {
	w := newWalsender(t, visit{stream: commitAt(200)})
	bad := errors.New("not a fault.Error: fatal")
	require.Equal(t, bad, Run(t.Context(), w.config(nothingConfirmed), func(context.Context, *Stream) error {
		return bad
	}))
}

func TestRunLoginRefused(t *testing.T) {
	refused := visit{refuse: errorResponse("28P01", `password authentication failed for user "u"`)}
	err := Run(t.Context(), newWalsender(t, refused).config(nothingConfirmed), drain)
	require.Equal(t, fault.Operator, fault.KindOf(err), "at first it is a mistake")
	require.ErrorContains(t, err, "28P01")
	require.NotContains(t, err.Error(), "s3cret-word")

	ctx, cancel := context.WithCancel(t.Context())
	cfg := newWalsender(t, visit{stream: commitAt(200)}, refused).config(nothingConfirmed)
	var waited []State
	cfg.OnState = func(s State) {
		if s.Phase == Waiting {
			if waited = append(waited, s); len(waited) == 2 {
				cancel()
			}
		}
	}
	require.NoError(t, Run(ctx, cfg, drain), "later it is a rotation")
	require.Equal(t, backoffMost, waited[1].RetryIn, "failed logins may lock the account")
}

func TestRunHidesPassword(t *testing.T) {
	w := newWalsender(t, visit{refuse: errorResponse("57P03", "no")})
	_ = w.ln.Close()
	cfg := w.config(nothingConfirmed)
	ctx, cancel := context.WithCancel(t.Context())
	var seen error
	cfg.OnState = func(s State) {
		if s.Phase == Waiting {
			seen = s.Err
			cancel()
		}
	}
	require.NoError(t, Run(ctx, cfg, drain))
	require.ErrorContains(t, seen, "connection refused")
	require.Contains(t, seen.Error(), "pg_isready -h 127.0.0.1")
	for err := seen; err != nil; err = errors.Unwrap(err) {
		require.NotContains(t, err.Error(), "s3cret-word")
	}
}

func TestRunStartOfLaterStream(t *testing.T) {
	first := visit{stream: commitAt(200)}
	confirmed := func() lsn.LSN { return 200 }
	tests := map[string]struct {
		second    visit
		confirmed func() lsn.LSN
		start     string // of the second stream
		kind      fault.Kind
		want      string
	}{
		"same server, the slot fell back": {second: visit{}, confirmed: confirmed, start: "0/C8"},
		"nothing known":                   {second: visit{}, confirmed: nothingConfirmed, start: "0/0"},
		"another cluster": {
			second: visit{system: "2"}, confirmed: confirmed, kind: fault.Operator,
			want: "system identifier 2, before 1",
		},
		"promoted, not rewound": {
			second: visit{timeline: "2"}, confirmed: confirmed, kind: fault.Fatal, want: "not rewound",
		},
		"promoted, rewound": {second: visit{timeline: "2"}, confirmed: func() lsn.LSN { return 100 }, start: "0/0"},
		"restored from a copy": {
			second: visit{walEnd: "0/C7"}, confirmed: confirmed, kind: fault.Operator,
			want: "restored from an older copy",
		},
		"slot dropped": {
			second: visit{slot: "none"}, confirmed: confirmed, kind: fault.Operator,
			want: `slot "s" at 0/C8: It no longer exists`,
		},
		"slot invalidated": {
			second: visit{
				slot: `{"slot_name":"s","plugin":"pgoutput","slot_type":"logical","database":"db","wal_status":"lost"}`,
			},
			confirmed: confirmed, kind: fault.Operator,
			want: "cdc-outbox slot recreate --yes-lose-events",
		},
		"slot is physical": {
			second: visit{slot: `{"slot_name":"s","slot_type":"physical"}`}, confirmed: confirmed, kind: fault.Operator,
			want: "physical",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newVirtualWalsender(t, first, test.second)
				streams := 0
				cfg := w.config(test.confirmed)
				cfg.OnIdentity = func(id Identity) error {
					require.Equal(t, lsn.LSN(100), id.ConfirmedFlush)
					require.Equal(t, streams == 1 && test.second.timeline != "", id.TimelineChanged)
					return nil
				}
				err := Run(t.Context(), cfg, func(ctx context.Context, s *Stream) error {
					if streams++; streams == 2 {
						return nil
					}
					return drain(ctx, s)
				})
				if test.want != "" {
					require.ErrorContains(t, err, test.want)
					require.Equal(t, test.kind, fault.KindOf(err))
					return
				}
				require.NoError(t, err)
				require.Contains(t, w.started[1], "START_REPLICATION SLOT s LOGICAL "+test.start+
					" (proto_version '1', publication_names '\"p\"')")
			})
		})
	}
}

// TestRunWaitsForHotStandby: one that was restarted begins again at its last restart point, which may be before what it
// had sent before; and a failover may lead to one for a while that is not meant.
//
// Bug (standbys): A hot standby that was restarted, and so had replayed less than it had sent before, was mistaken for
// a server restored from a backup. Cost: exit 3 after a crash of the hot standby.
//
// Bug (standbys): While a failover led to a standby for a moment, its missing slot counted as lost. Cost: exit 3, and
// advice to create a slot that exists.
func TestRunWaitsForHotStandby(t *testing.T) {
	for name, test := range map[string]struct {
		first, second visit
		meant         bool
		why           string
	}{
		"restarted": {
			visit{standby: true, stream: commitAt(200)},
			visit{standby: true, walEnd: "0/C7"},
			true,
			"the standby has been restarted and has its log up to 0/C7",
		},
		"not meant": {visit{stream: commitAt(200)}, visit{standby: true, slot: "none"}, false, "It is a standby"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newVirtualWalsender(t, test.first, test.second, test.first)
				cfg := w.config(func() lsn.LSN { return 200 })
				cfg.HotStandby = test.meant
				var waits []string
				cfg.OnState = func(s State) {
					if s.Phase == Waiting {
						waits = append(waits, s.Err.Error())
					}
				}
				streams := 0
				require.NoError(t, Run(t.Context(), cfg, func(ctx context.Context, s *Stream) error {
					if streams++; streams == 2 {
						return nil
					}
					return drain(ctx, s)
				}))
				require.Len(t, waits, 2)
				require.Contains(t, waits[1], test.why)
			})
		})
	}
}

func TestRunOnIdentityCanRefuse(t *testing.T) {
	w := newWalsender(t, visit{})
	cfg := w.config(nothingConfirmed)
	no := &fault.Error{Kind: fault.Operator, Object: "checkpoint"}
	cfg.OnIdentity = func(Identity) error { return no }
	require.Equal(t, error(no), Run(t.Context(), cfg, drain))
}

func TestRunWaitsLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newVirtualWalsender(t, visit{refuse: errorResponse("57P03", "starting up")})
		ctx, cancel := context.WithCancel(t.Context())
		cfg := w.config(nothingConfirmed)
		var waits []time.Duration
		cfg.OnState = func(s State) {
			if s.Phase == Waiting {
				if waits = append(waits, s.RetryIn); len(waits) == 4 {
					cancel()
				}
			}
		}
		require.NoError(t, Run(ctx, cfg, drain))
		require.LessOrEqual(t, waits[0], backoffFirst*3/2+time.Millisecond)
		require.Greater(t, waits[3], backoffFirst*3)
	})
}

// TestRunPatientWithSilentServer: decoding three million rows of a table that is not
// published takes seconds in which the server says nothing, and each new connection starts over.
//
// Bug (stream): A server that silently decoded a large transaction of other tables was considered dead, and decoding
// started again from the beginning each time. Cost: the slot never advanced.
func TestRunPatientWithSilentServer(t *testing.T) {
	r := &runner{cfg: &Config{Slot: "s", Silence: time.Minute}, silence: time.Minute}
	silent := r.cfg.retry(&silentServer{time.Minute})
	for _, step := range []struct {
		err       error
		delivered bool
		want      time.Duration
	}{
		{silent, true, time.Minute},
		{silent, false, 2 * time.Minute},
		{silent, false, 4 * time.Minute},
		{r.cfg.retry(errors.New("reset")), false, time.Minute},
		{silent, false, 2 * time.Minute},
		{silent, false, 4 * time.Minute},
		{silent, false, 8 * time.Minute},
		{silent, false, 16 * time.Minute},
		{silent, false, 16 * time.Minute},
		{silent, true, time.Minute},
	} {
		r.patience(&Stream{delivered: step.delivered}, step.err)
		require.Equal(t, step.want, r.silence)
	}
}
