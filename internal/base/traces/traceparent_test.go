package traces

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

const (
	aTrace = "0af7651916cd43dd8448eb211c80319c"
	aSpan  = "b7ad6b7169203331"
)

// What the specification's own test suite asks of a receiver, and what a row may hold besides.
func TestTraceparent(t *testing.T) {
	for _, tc := range []struct {
		what, in    string
		ok, sampled bool
	}{
		{"sampled", "00-" + aTrace + "-" + aSpan + "-01", true, true},
		{"not sampled", "00-" + aTrace + "-" + aSpan + "-00", true, false},
		{"other flags", "00-" + aTrace + "-" + aSpan + "-02", true, false},
		{"all flags", "00-" + aTrace + "-" + aSpan + "-ff", true, true},
		{"a later version", "cc-" + aTrace + "-" + aSpan + "-01", true, true},
		{"a later version with more", "cc-" + aTrace + "-" + aSpan + "-01-what-the-future-brings", true, true},
		{"a later version with more, glued on", "cc-" + aTrace + "-" + aSpan + "-01.what", false, false},
		{"version 00 with more", "00-" + aTrace + "-" + aSpan + "-01-what", false, false},
		{"version 00 with a hyphen", "00-" + aTrace + "-" + aSpan + "-01-", false, false},
		{"the forbidden version", "ff-" + aTrace + "-" + aSpan + "-01", false, false},
		{"a version of letters", "zz-" + aTrace + "-" + aSpan + "-01", false, false},
		{"an upper-case version", "CC-" + aTrace + "-" + aSpan + "-01", false, false},
		{"an upper-case trace id", "00-" + strings.ToUpper(aTrace) + "-" + aSpan + "-01", false, false},
		{"an upper-case span id", "00-" + aTrace + "-" + strings.ToUpper(aSpan) + "-01", false, false},
		{"upper-case flags", "00-" + aTrace + "-" + aSpan + "-0A", false, false},
		{"a trace id of zeros", "00-" + strings.Repeat("0", 32) + "-" + aSpan + "-01", false, false},
		{"a span id of zeros", "00-" + aTrace + "-" + strings.Repeat("0", 16) + "-01", false, false},
		{"all zeros", "00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-00", false, false},
		{"no hexadecimal digits", "00-" + strings.Repeat("g", 32) + "-" + aSpan + "-01", false, false},
		{"underscores", "00_" + aTrace + "_" + aSpan + "_01", false, false},
		{"no flags", "00-" + aTrace + "-" + aSpan, false, false},
		{"half of the flags", "00-" + aTrace + "-" + aSpan + "-0", false, false},
		{"a shorter trace id", "00-" + aTrace[1:] + "-" + aSpan + "-01", false, false},
		{"blanks around", " 00-" + aTrace + "-" + aSpan + "-01 ", false, false},
		{"nothing", "", false, false},
		{"something else", "none", false, false},
		{"zero bytes", strings.Repeat("\x00", 55), false, false},
		{"ten megabytes", strings.Repeat("00-", 10<<20/3), false, false},
		{
			"ten megabytes after a good one", "00-" + aTrace + "-" + aSpan + "-01" + strings.Repeat("x", 10<<20), false,
			false,
		},
		{
			"ten megabytes of a later version", "01-" + aTrace + "-" + aSpan + "-01-" + strings.Repeat("x", 10<<20),
			true, true,
		},
	} {
		in := []byte(tc.in)
		var p parent
		var ok bool
		allocs := testing.AllocsPerRun(10, func() { p, ok = parseTraceparent(in) })
		require.Zero(t, allocs, tc.what)
		require.Equal(t, tc.ok, ok, tc.what)
		require.Equal(t, tc.sampled, p.sampled, tc.what)
		if ok {
			require.Equal(t, aTrace, p.traceID.String(), tc.what)
			require.Equal(t, aSpan, p.spanID.String(), tc.what)
		} else {
			require.Zero(t, p, tc.what)
		}
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add([]byte("00-" + aTrace + "-" + aSpan + "-01"))
	f.Add([]byte("cc-" + aTrace + "-" + aSpan + "-01-x"))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, ok := parseTraceparent(in)
		if !ok {
			return
		}
		// What is taken says the same when it is written again.
		require.Equal(t, string(in[3:35]), p.traceID.String())
		require.Equal(t, string(in[36:52]), p.spanID.String())
		require.True(t, p.traceID.IsValid() && p.spanID.IsValid())
	})
}

func TestSampling(t *testing.T) {
	sampled, not := []byte("00-"+aTrace+"-"+aSpan+"-01"), []byte("00-"+aTrace+"-"+aSpan+"-00")
	r := recorder(t, Settings{URL: "http://127.0.0.1:1", Sample: 0})
	s := r.Sample(sampled, nil)
	require.Equal(t, aTrace, s.TraceID())
	require.Equal(t, aSpan, s.parent.String())
	require.NotEqual(t, aSpan, s.SpanID())
	require.Nil(t, r.Sample(not, nil), "the writer has decided")
	require.Nil(t, r.Sample(nil, nil))
	require.Nil(t, r.Sample([]byte("none"), nil))

	r = recorder(t, Settings{URL: "http://127.0.0.1:1", Sample: 1})
	require.Nil(t, r.Sample(not, nil), "the writer has decided")
	s = r.Sample(nil, []byte(aTrace))
	require.Equal(t, aTrace, s.TraceID(), "the envelope names the trace")
	require.False(t, s.parent.IsValid())
	for _, nothing := range [][]byte{
		nil, []byte("none"), bytes.Repeat([]byte("0"), 32), bytes.Repeat([]byte("0"), 10<<20),
	} {
		s = r.Sample(nothing, nothing)
		require.True(t, s.traceID.IsValid() && s.spanID.IsValid() && !s.parent.IsValid())
		require.NotEqual(t, s.TraceID(), r.Sample(nothing, nothing).TraceID())
	}

	r = recorder(t, Settings{URL: "http://127.0.0.1:1", Sample: 0.1})
	n := 0
	for range 100_000 {
		if r.Sample(nil, nil) != nil {
			n++
		}
	}
	require.InDelta(t, 10_000, n, 600) // six standard deviations
	r = recorder(t, Settings{URL: "http://127.0.0.1:1"})
	require.Zero(t, testing.AllocsPerRun(1000, func() { r.Sample(not, nil); r.Sample(nil, nil) }),
		"an event that is not sampled")
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t, Settings{URL: "http://127.0.0.1:1", Limit: 100})
		spans := 0
		for range 10 {
			for range 1000 {
				if r.Sample([]byte("00-"+aTrace+"-"+aSpan+"-01"), nil) != nil {
					spans++
				}
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, 10*100, spans)
		require.Equal(t, 10*900.0, value(t, r.metrics.limited))
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			r.taken = 100
			r.Sample([]byte("00-"+aTrace+"-"+aSpan+"-01"), nil)
		}))
	})
}

func recorder(t *testing.T, s Settings) *Recorder {
	t.Helper()
	s.Queue, s.Batch = 16, 4
	if s.Delay == 0 {
		s.Delay = 10 * time.Millisecond
	}
	r, err := New(Config{Settings: s, Slot: "cdc_outbox", Version: "1.2", Logger: logger(t)})
	require.NoError(t, err)
	return r
}
