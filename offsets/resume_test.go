package offsets

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func (d *drive) rewind(confirmed LSN) *drive { d.Rewind(confirmed); return d }

// pass of a stream after a break: f(alse) is a row handed out before, y one that is new.
const y, f = true, false

func TestResume(t *testing.T) {
	tests := []struct {
		name string
		run  func(d *drive)
	}{
		{"repeats what is unconfirmed, once", func(d *drive) {
			d.tx(110, 120, y, y).tx(120, 130, y).resume().tx(110, 120, f, f).tx(120, 130, f).tx(130, 140, y)
			d.ack(110, 110, 120, 130).confirmed(140)
		}},
		{"goes on inside a transaction", func(d *drive) {
			d.begin(110).add(y, y).resume().tx(110, 120, f, f, y, y).ack(110, 110, 110).confirmed(100).ack(110).
				confirmed(120)
		}},
		{"inside a transaction whose rows are acknowledged", func(d *drive) {
			d.begin(110).add(y).ack(110).resume().tx(110, 120, f).confirmed(120)
		}},
		{"inside a transaction without rows yet", func(d *drive) {
			d.begin(110).resume().tx(110, 120, y).ack(110).confirmed(120)
		}},
		{"again while repeating", func(d *drive) {
			d.tx(110, 120, y, y).begin(120).add(y).resume().begin(110).add(f).resume().tx(110, 120, f, f).begin(120).
				add(f, y).resume()
			d.tx(110, 120, f, f).tx(120, 130, f, f, y).ack(110, 110, 120, 120, 120).confirmed(130)
		}},
		{"with acks between break and start", func(d *drive) {
			d.tx(110, 120, y).tx(120, 130, y).resume().ack(110).confirmed(120).tx(120, 130, f).ack(120).confirmed(130)
		}},
		{"with acks after the start was asked for", func(d *drive) {
			d.tx(110, 120, y).tx(120, 130, y).resume().ack(110, 120).tx(110, 120, f).tx(120, 130, f).tx(130, 140, y).
				confirmed(130)
		}},
		{"with acks inside a repeat", func(d *drive) {
			d.tx(110, 120, y, y).resume().begin(110).add(f).ack(110, 110).confirmed(120).add(f).end(120).confirmed(120)
		}},
		{"with a repeat acknowledged after another", func(d *drive) {
			d.tx(110, 120, y).tx(120, 130, y, y).tx(130, 140, y).resume().ack(120, 120)
			d.tx(110, 120, f).tx(120, 130, f, f).tx(130, 140, f).ack(110).confirmed(130).ack(130).confirmed(140)
		}},
		{"with empty ones repeated or not", func(d *drive) {
			d.tx(110, 120, y).tx(120, 130).tx(130, 140).tx(140, 150, y).resume()
			d.tx(110, 120, f).tx(130, 140).tx(140, 150, f).ack(110).confirmed(140)
		}},
		{"from below the session's start, where the slot fell back to", func(d *drive) {
			d.tx(110, 120, y).resume().tx(50, 60, f, f).tx(90, 100, f).tx(110, 120, f).ack(110).confirmed(120)
		}},
		{"from below Confirmed, where the slot fell back to", func(d *drive) {
			d.tx(110, 120, y).ack(110).tx(120, 130).observe(200).tx(210, 220, y).resume()
			d.tx(110, 120, f).tx(120, 130).confirmed(200).tx(210, 220, f).ack(210).confirmed(220)
		}},
		{"a first stream from below the session's start", func(d *drive) {
			d.tx(50, 60, f, f).confirmed(100).tx(100, 110, y).ack(100).confirmed(110)
		}},
		{"before anything came", func(d *drive) { d.resume().tx(110, 120, y) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(newDrive(t)) })
	}
}

func TestRewind(t *testing.T) {
	d := newDrive(t).tx(110, 120, y).ack(110).tx(120, 130, y, y).begin(130).add(y)
	old := append(d.tickets[120], d.tickets[130]...)

	d.rewind(120).confirmed(120)
	require.False(t, d.Open())
	require.Zero(t, d.Unconfirmed())
	rows, _, ok := d.Outstanding()
	require.Zero(t, rows)
	require.False(t, ok)

	clear(d.tickets)
	d.tx(110, 120, f) // confirmed when the session began
	d.tx(120, 130, y, y).tx(130, 140, y)
	require.NoError(t, d.Ack(old, d.finished), "acks of the session before are not an error")
	d.confirmed(120)
	require.Equal(t, []LSN{110}, d.done)
	d.ack(120, 120, 130).confirmed(140)
}

func TestRewindToALowerPosition(t *testing.T) {
	newDrive(t).tx(110, 120, y).ack(110).confirmed(120).rewind(100).confirmed(100).tx(110, 120, y).ack(110).
		confirmed(120)
}

func TestSessionsWrap(t *testing.T) {
	d := newDrive(t)
	for range math.MaxUint16 + 3 {
		d.Rewind(100)
		require.NotZero(t, d.session)
	}
	d.tx(110, 120, y).ack(110).confirmed(120)
}

func TestGenerationsWrap(t *testing.T) {
	tr := NewTracker(1)
	for i := range LSN(math.MaxUint16 + 3) {
		require.NoError(t, tr.Begin(10*i+10, at(0)))
		_, ticket, _, err := tr.Add()
		require.NoError(t, err)
		require.NoError(t, tr.Commit(10*i+20))
		require.NoError(t, tr.Ack([]Ticket{ticket}, nil))
		require.Equal(t, 10*i+20, tr.Confirmed())
	}
	require.Len(t, tr.ledger.slots, 1)
}

func TestStreamErrors(t *testing.T) {
	begin := func(commit LSN) func(d *drive) error {
		return func(d *drive) error { return d.Begin(commit, at(commit)) }
	}
	add := func(d *drive) error { _, _, _, err := d.Add(); return err }
	commit := func(end LSN) func(d *drive) error {
		return func(d *drive) error { return d.Commit(end) }
	}
	tests := []struct {
		name  string
		setup func(d *drive)
		call  func(d *drive) error
		want  StreamError
	}{
		{
			"Begin in a transaction", func(d *drive) { d.begin(110) }, begin(120),
			StreamError{Broken: BrokenNesting, At: 120, Other: 110},
		},
		{"row outside", func(d *drive) { d.tx(110, 120) }, add, StreamError{Broken: BrokenNesting, Other: 120}},
		{
			"row after the stream broke", func(d *drive) { d.begin(110).resume() }, add,
			StreamError{Broken: BrokenNesting},
		},
		{"Commit outside", func(*drive) {}, commit(120), StreamError{Broken: BrokenNesting, At: 120}},
		{"Begin at 0", func(*drive) {}, begin(0), StreamError{Broken: BrokenOrder}},
		{
			"the same again", func(d *drive) { d.tx(110, 120, y) }, begin(110),
			StreamError{Broken: BrokenOrder, At: 110, Other: 120},
		},
		{
			"an earlier one", func(d *drive) { d.tx(110, 120, y) }, begin(105),
			StreamError{Broken: BrokenOrder, At: 105, Other: 120},
		},
		{
			"one inside the last", func(d *drive) { d.tx(110, 120, y) }, begin(115),
			StreamError{Broken: BrokenOrder, At: 115, Other: 120},
		},
		{
			"one inside the last, on the next stream", func(d *drive) { d.tx(110, 120, y).resume().tx(110, 115, f) },
			begin(116),
			StreamError{Broken: BrokenOrder, At: 116, Other: 120},
		},
		{
			"below a keepalive", func(d *drive) { d.observe(200) }, begin(150),
			StreamError{Broken: BrokenOrder, At: 150, Other: 200},
		},
		{
			"the same repeated twice", func(d *drive) { d.tx(110, 120, y).resume().tx(110, 120, f) }, begin(110),
			StreamError{Broken: BrokenOrder, At: 110, Other: 120},
		},
		{
			"end at the commit record", func(d *drive) { d.begin(110) }, commit(110),
			StreamError{Broken: BrokenOrder, At: 110, Other: 110},
		},
		{
			"half received is passed over", func(d *drive) { d.begin(110).add(y).resume() }, begin(120),
			StreamError{Broken: BrokenGap, At: 120, Other: 110},
		},
		{
			"half received without rows is passed over", func(d *drive) { d.begin(110).resume() }, begin(120),
			StreamError{Broken: BrokenGap, At: 120, Other: 110},
		},
		{
			"half received is passed over again", func(d *drive) { d.begin(110).resume().begin(110).resume() },
			begin(120),
			StreamError{Broken: BrokenGap, At: 120, Other: 110},
		},
		{
			"unconfirmed is passed over", func(d *drive) { d.tx(110, 120, y).resume() }, begin(120),
			StreamError{Broken: BrokenGap, At: 120, Other: 110},
		},
		{
			"unconfirmed is passed over for a repeat", func(d *drive) { d.tx(110, 120, y).tx(120, 130, y).resume() },
			begin(120),
			StreamError{Broken: BrokenGap, At: 120, Other: 110},
		},
		{
			"more rows than before", func(d *drive) { d.tx(110, 120, y).resume().begin(110).add(f) }, add,
			StreamError{Broken: BrokenRepeat, At: 110, Rows: 2, Before: 1},
		},
		{
			"fewer rows than before", func(d *drive) { d.tx(110, 120, y, y).resume().begin(110).add(f) }, commit(120),
			StreamError{Broken: BrokenRepeat, At: 110, Rows: 1, Before: 2},
		},
		{
			"fewer rows than half received", func(d *drive) { d.begin(110).add(y, y).resume().begin(110).add(f) },
			commit(120),
			StreamError{Broken: BrokenRepeat, At: 110, Rows: 1, Before: 2},
		},
		{
			"a row where none was", func(d *drive) {
				d.tx(110, 120, y).tx(120, 130).resume().tx(110, 120, f).begin(120)
			}, add, StreamError{Broken: BrokenRepeat, At: 120, Rows: 1},
		},
		{
			"a row where a keepalive said nothing lies", func(d *drive) { d.observe(200).resume().begin(150) }, add,
			StreamError{Broken: BrokenRepeat, At: 150, Rows: 1},
		},
		{
			"too many rows", func(d *drive) { d.begin(110).stream.index = math.MaxUint32 }, add,
			StreamError{Broken: BrokenLimit, At: 110},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrive(t)
			tt.setup(d)
			before := &Tracker{}
			before.assign(d.Tracker)
			var got *StreamError
			require.ErrorAs(t, tt.call(d), &got)
			require.Equal(t, tt.want, *got)
			if tt.want.At != 0 {
				require.ErrorContains(t, got, tt.want.At.String())
			}
			require.Equal(t, before, d.Tracker, "a failed call changed the state")
		})
	}
}

func TestBrokenNames(t *testing.T) {
	for b := BrokenNesting; b <= BrokenLimit; b++ {
		require.NotEmpty(t, b.String())
		require.NotEqual(t, Broken(0).String(), b.String())
	}
	require.Equal(t, "unknown rule", Broken(200).String())
}

// The last transaction is known until a Rewind, whatever became of its rows and its stream.
func TestLastIsTheTransactionThatBeganLast(t *testing.T) {
	tr := NewTracker(100)
	commit, _ := tr.Last()
	require.Zero(t, commit)
	require.NoError(t, tr.Begin(110, at(110)))
	_, ticket, _, err := tr.Add()
	require.NoError(t, err)
	require.NoError(t, tr.Commit(115))
	require.NoError(t, tr.Ack([]Ticket{ticket}, nil))
	tr.Observe(150)
	tr.Resume()
	commit, committed := tr.Last()
	require.EqualValues(t, 110, commit)
	require.True(t, committed.Equal(at(110)))
	require.NoError(t, tr.Begin(110, at(110)), "a stream may begin there")
	_, _, fresh, err := tr.Add()
	require.NoError(t, err)
	require.False(t, fresh)
	require.NoError(t, tr.Commit(115))
	require.NoError(t, tr.Begin(120, at(120)))
	_, _, _, err = tr.Add()
	require.Error(t, err, "a keepalive said that nothing was there")
	tr.Rewind(100)
	commit, _ = tr.Last()
	require.Zero(t, commit)
}

// A row that was taken back is as if Add had not been called: it is fresh again, under its own position, and nothing is
// confirmed past it.
func TestTakeBack(t *testing.T) {
	for rows := range 3 {
		tr := NewTracker(100)
		require.NoError(t, tr.Begin(110, at(110)))
		for range rows {
			_, _, fresh, err := tr.Add()
			require.NoError(t, err)
			require.True(t, fresh)
		}
		before := tr.Snapshot()
		_, ticket, _, err := tr.Add()
		require.NoError(t, err)
		require.NotEqual(t, before, tr.Snapshot())
		tr.TakeBack()
		require.Equal(t, before, tr.Snapshot())
		require.Equal(t, rows, tr.Unconfirmed())
		if rows == 0 {
			require.Error(t, tr.Ack([]Ticket{ticket}, nil))
		}
		tr.Resume()
		tr.TakeBack() // nothing was handed out on this stream
		require.NoError(t, tr.Begin(110, at(110)))
		for range rows {
			_, _, fresh, err := tr.Add()
			require.NoError(t, err)
			require.False(t, fresh)
		}
		pos, ticket, fresh, err := tr.Add()
		require.NoError(t, err)
		require.True(t, fresh)
		require.Equal(t, Position{Commit: 110, Index: uint32(rows)}, pos)
		require.NoError(t, tr.Commit(120))
		require.EqualValues(t, 100, tr.Confirmed())
		for range rows + 1 {
			require.NoError(t, tr.Ack([]Ticket{ticket}, nil))
		}
		require.EqualValues(t, 120, tr.Confirmed())
		require.Zero(t, tr.Unconfirmed())
	}
}
