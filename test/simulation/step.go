package simulation

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/broker"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// later undoes a fault. The run waits for it.
func (w *world) later(d time.Duration, what string, undo func()) {
	w.ends.Add(1)
	time.AfterFunc(d, func() {
		defer w.ends.Done()
		w.say("ENDS %s", what)
		undo()
	})
}

// applyStep does what a step says.
func (w *world) applyStep(s Step) {
	in := w.instances[s.A%len(w.instances)]
	switch s.Kind {
	case Commit:
		w.commit(s.A, s.B)
	case Late:
		w.commitLate(s)
	case Foreign:
		w.postgres.Foreign(s.A)
	case SaveSlot:
		w.postgres.SaveSlot()
	case CutStream:
		w.net.Cut(network.Route{From: in.host(), To: postgresAddress}, s.B == 1)
	case CutBroker:
		w.net.Cut(network.Route{From: in.host(), To: broker.Address(int32(s.B))}, s.For%2 == 0)
	case LoseStream:
		w.net.Lose(network.Route{From: in.host(), To: postgresAddress})
	case LoseBroker:
		w.net.Lose(network.Route{From: in.host(), To: broker.Address(int32(s.B))})
	case Terminate:
		w.postgres.Terminate()
	case TerminateOthers:
		w.postgres.TerminateOthers()
	case MoveLeader:
		w.kafka.Move(s.A)
	case Fence:
		w.kafka.Fence()
	case Unpublish, Flicker:
		w.hide(s)
	default:
		w.takeLasting(s, in)
	}
}

func (w *world) takeLasting(s Step, in *instance) {
	switch s.Kind {
	case HoldPostgres:
		w.hold(s, network.Route{From: in.host(), To: postgresAddress})
	case HoldBroker:
		w.hold(s, network.Route{From: in.host(), To: broker.Address(int32(s.B))})
	case Freeze:
		w.hold(s, w.routes(in.host())...)
	case SlowBroker:
		r := network.Route{From: in.host(), To: broker.Address(int32(s.B))}
		w.net.Slow(r, time.Second)
		w.later(s.For, "slow broker", func() { w.net.Slow(r, 0) })
	case RestartServer, CrashServer:
		w.postgres.Stop(s.Kind == CrashServer)
		w.later(s.For, string(s.Kind), w.postgres.Start)
	case Restore:
		w.restore(s)
	case Promote:
		w.promote(s)
	case DetachStandby:
		w.postgres.DetachStandby(true)
		w.later(s.For, string(s.Kind), func() { w.postgres.DetachStandby(false) })
	case LockTable:
		w.postgres.Lock(true)
		w.later(s.For, "lock", func() { w.postgres.Lock(false) })
	case Deny:
		w.postgres.Deny(true)
		w.postgres.Terminate() // what it finds when it connects again is the point
		w.later(s.For, "deny", func() { w.postgres.Deny(false) })
	case Limit:
		w.postgres.LimitTransactions(time.Second)
		w.commit(1, 1500)
		w.later(s.For, "limit", func() {})
	default:
		w.takeElsewhere(s, in)
	}
}

func (w *world) takeElsewhere(s Step, in *instance) {
	switch s.Kind {
	case StopBroker:
		id := int32(s.A)
		w.kafka.Stop(id)
		for _, other := range w.instances {
			w.net.Cut(network.Route{From: other.host(), To: broker.Address(id)}, false)
		}
		if w.plan.Brokers > 1 {
			w.later(time.Second, "election", w.kafka.Elect)
		}
		w.later(s.For, "stop broker", func() { w.kafka.Start(id) })
	case LostAnswer:
		w.fates(s, broker.Fate{Lost: true})
	case Refusal:
		w.fates(s, broker.Fate{Code: refusals[s.A].code, After: refusals[s.A].appended})
	case BusyCoordinator:
		w.fates(s, broker.Fate{Busy: busy[s.A]})
	case UnknownProducer:
		w.fates(s, broker.Fate{Code: 59})
	case CrashInstance:
		in.kill(s.B == 1)
		w.later(s.For, "crash", in.start)
	case StopInstance:
		over := in.stop()
		w.later(s.For, "stop", func() {
			<-over
			in.start()
		})
	default:
		w.wrong("E", "no such step: %s", s)
	}
}

func (w *world) hold(s Step, routes ...network.Route) {
	for _, r := range routes {
		w.net.Hold(r, true)
	}
	w.later(s.For, string(s.Kind), func() {
		for _, r := range routes {
			w.net.Hold(r, false)
		}
	})
}

// fates makes every Bth request meet the fate.
func (w *world) fates(s Step, f broker.Fate) {
	w.mu.Lock()
	w.trouble, w.every = f, uint64(s.B)
	w.mu.Unlock()
	w.later(s.For, string(s.Kind), func() {
		w.mu.Lock()
		w.every = 0
		w.mu.Unlock()
	})
}

func (w *world) fate(n uint64, _ int32, key int16) broker.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.every == 0 || n%w.every != 0 || w.trouble.Code != 0 && key != 0 {
		return broker.Fate{}
	}
	return w.trouble
}

// commit writes transactions of rows.
func (w *world) commit(transactions, rows int) {
	w.postgres.Commit(w.transactions(transactions, rows)...)
}

// transactions makes up rows. Keys are few, so that each has many events.
func (w *world) transactions(transactions, rows int) (all [][]walsender.Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range transactions {
		var t []walsender.Row
		for range rows {
			w.serial++
			x := network.Mix(w.plan.Seed ^ uint64(w.serial))
			key := fmt.Sprintf("k%d", x%5)
			topic := []string{"order", "order", "bill"}[x>>8%3]
			w.perKey[topic+key]++
			t = append(t, walsender.Row{ID: fmt.Sprintf("e%05d", w.serial), Topic: topic, Key: key})
		}
		all = append(all, t)
	}
	return all
}

// keepSnapshots copies the server's disk now and then, for plans that need it.
func (w *world) keepSnapshots() {
	if !w.plan.has(Restore) {
		return
	}
	last := w.plan.Steps[len(w.plan.Steps)-1].At
	for at := time.Duration(0); at <= last; at += time.Second {
		w.later(at, "snapshot", func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.snapshots = append(w.snapshots, snapshot{time.Now(), w.postgres.Snapshot()})
		})
	}
}

// restore puts the server back to how it was some seconds ago.
func (w *world) restore(s Step) {
	w.mu.Lock()
	var to *walsender.State
	for i := range w.snapshots {
		if to == nil || time.Since(w.snapshots[i].at) >= time.Duration(s.B)*time.Second {
			to = &w.snapshots[i].state
		}
	}
	w.restored = true
	w.mu.Unlock()
	w.postgres.Stop(true)
	if to != nil {
		w.postgres.Restore(*to)
	}
	w.later(s.For, "restore", func() {
		w.postgres.Start()
	})
}
