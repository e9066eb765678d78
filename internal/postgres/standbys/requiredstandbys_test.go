package standbys

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

func standby(name string, flushed lsn.LSN) Sender {
	return Sender{Name: name, State: "streaming", Flushed: flushed.String(), at: flushed}
}

func decoding(name string, flushed lsn.LSN) Sender {
	s := standby(name, flushed)
	s.Logical = true
	return s
}

func starting(name string) Sender { return Sender{Name: name, State: "startup"} }

func catchingUp(name string, flushed lsn.LSN) Sender {
	s := standby(name, flushed)
	s.State = "catchup"
	return s
}

func TestJudgeNames(t *testing.T) {
	for _, c := range []struct {
		name    string
		demand  Demand
		senders []Sender
		flushed lsn.LSN
		missing []string
	}{
		{"all", Demand{Names: []string{"a", "b"}}, []Sender{standby("b", 20), standby("a", 10)}, 10, nil},
		{"any one", Demand{[]string{"a", "b"}, 1}, []Sender{standby("b", 20), standby("a", 10)}, 20, nil},
		{"two of three", Demand{[]string{"a", "b", "c"}, 2}, []Sender{standby("c", 5), standby("A", 10)}, 5, nil},
		{"one away", Demand{Names: []string{"a", "b"}}, []Sender{standby("a", 10)}, 0, []string{"b"}},
		{"a decoder of the name", Demand{Names: []string{"a"}}, []Sender{decoding("a", 10)}, 0, []string{"a"}},
		{"has not reported", Demand{Names: []string{"a"}}, []Sender{starting("a")}, 0, []string{"a"}},
		{"catching up", Demand{Names: []string{"a"}}, []Sender{catchingUp("a", 10)}, 0, []string{"a"}},
		{"two of one name", Demand{Names: []string{"a"}}, []Sender{standby("a", 10), standby("a", 7)}, 7, nil},
		{"others do not count", Demand{Names: []string{"a"}}, []Sender{standby("a", 10), standby("z", 99)}, 10, nil},
	} {
		v := c.demand.judge(&Look{Senders: c.senders}, nil)
		require.Equal(t, c.flushed, v.flushed, c.name)
		require.Equal(t, c.missing, v.missing, c.name)
	}
}

func TestJudgeAsTheServer(t *testing.T) {
	a, b, c := standby("a", 10), standby("b", 20), standby("c", 30)
	for _, k := range []struct {
		names   string
		senders []Sender
		flushed lsn.LSN
		missing []string
	}{
		{"", nil, unbounded, nil},
		{"a", []Sender{a, b}, 10, nil},
		{"a, b", []Sender{b, c}, 20, nil},
		{"FIRST 1 (a, b)", []Sender{b, a}, 10, nil},
		{"FIRST 2 (a, b, c)", []Sender{c, b, a}, 10, nil},
		{"2 (b, c, a)", []Sender{c, b, a}, 20, nil},
		{"ANY 1 (a, b)", []Sender{a, b}, 20, nil},
		{"any 2 (a, b, c)", []Sender{a, b, c}, 20, nil},
		{"ANY 2 (a, b)", []Sender{a}, 0, []string{"b"}},
		{"*", []Sender{decoding("cdc-outbox/s", 99), b, a}, 10, nil},
		{"FIRST 1 (a, b)", []Sender{catchingUp("a", 10), b}, 20, nil},
	} {
		v := Demand{Names: []string{AsServer}}.judge(&Look{SyncNames: k.names, Senders: k.senders}, nil)
		require.Equal(t, k.flushed, v.flushed, k.names)
		require.ElementsMatch(t, k.missing, v.missing, k.names)
		require.Equal(t, k.names == "", v.nobody, k.names)
	}
}

// The server waits for the standbys of certain slots itself, also while one is away; the others remain ours.
func TestJudgeLeavesToTheServerWhatItDoes(t *testing.T) {
	a := standby("a", 10)
	a.Slot = "slot_a"
	l := &Look{Failover: true, HeldSlots: `slot_a, "slot_c"`, Senders: []Sender{a, standby("b", 20)}}
	require.Equal(t, unbounded, Demand{Names: []string{"a"}}.judge(l, nil).flushed)
	require.Equal(t, lsn.LSN(20), Demand{Names: []string{"a", "b"}}.judge(l, nil).flushed)
	require.Equal(t, []string{"c"}, Demand{Names: []string{"c"}}.judge(l, nil).missing, "its slot is not known")
	require.Equal(t, unbounded, Demand{Names: []string{"c"}}.judge(l, map[string]string{"c": "slot_c"}).flushed)
	l.Failover = false
	require.Equal(t, lsn.LSN(10), Demand{Names: []string{"a"}}.judge(l, nil).flushed, "the slot is not held back")
}

func TestHorizonPassesWhatStandbysHaveWhole(t *testing.T) {
	var h horizon
	h.see(100, 90)
	require.Zero(t, h.at, "a record that ends at 100 may have begun before 90")
	h.see(200, 99)
	require.Zero(t, h.at)
	h.see(300, 150)
	require.Equal(t, lsn.LSN(100), h.at)
	h.see(300, 320)
	require.Equal(t, lsn.LSN(300), h.at)
	require.Empty(t, h.pending)
	h.see(400, 350)
	require.Equal(t, lsn.LSN(300), h.at)
	for i := range lsn.LSN(1000) {
		h.see(500+i, 350)
	}
	require.Len(t, h.pending, maxPending)
	h.see(5000, 1500)
	require.Equal(t, lsn.LSN(500+maxPending-2), h.at, fmt.Sprint(h.pending))
}
