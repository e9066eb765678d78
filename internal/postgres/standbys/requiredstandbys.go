package standbys

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// AsServer, as the only name, stands for what synchronous_standby_names says at the moment.
const AsServer = "synchronous_standby_names"

// Demand is which standbys must have a transaction before it is published.
type Demand struct {
	Names []string // application names of physical standbys, or AsServer
	Count int      // how many of them, whichever; 0: all
}

// Needed is how many of them are needed.
func (d Demand) Needed() int {
	if d.Count == 0 {
		return len(d.Names)
	}
	return d.Count
}

// FollowsServer reports whether synchronous_standby_names decides.
func (d Demand) FollowsServer() bool { return len(d.Names) == 1 && d.Names[0] == AsServer }

// unbounded is the position of a standby that need not be waited for.
const unbounded = lsn.LSN(math.MaxUint64)

// verdict is how far enough standbys are.
type verdict struct {
	flushed lsn.LSN  // what enough of them have flushed; 0 where too few are connected
	missing []string // names that are waited for and not connected
	slowest string   // the standby that decides flushed
	nobody  bool     // synchronous_standby_names is empty
}

// candidate is a connected standby, or one that the server waits for itself.
type candidate struct {
	name     string
	priority int
	flushed  lsn.LSN
}

// judge says how far the standbys are. slots are the slots that the standbys were last seen to use, by name in lower
// case.
func (d Demand) judge(l *Look, slots map[string]string) verdict {
	if len(d.Names) == 0 {
		return verdict{flushed: unbounded}
	}
	if d.FollowsServer() {
		return judgeSynchronous(session.ParseSynchronous(l.SyncNames), l)
	}
	var v verdict
	var all []candidate
	for _, name := range d.Names {
		at, connected := l.flushedBy(name)
		slot, known := slots[strings.ToLower(name)]
		switch {
		case connected:
			all = append(all, candidate{name: name, flushed: at})
		case known && l.holds(slot): // the server waits for it
			all = append(all, candidate{name: name, flushed: unbounded})
		default:
			v.missing = append(v.missing, name)
		}
	}
	return v.nth(all, d.Needed())
}

// nth decides by the n that are furthest.
func (v verdict) nth(all []candidate, n int) verdict {
	if len(all) < n {
		return v
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(b.flushed, a.flushed) })
	v.flushed, v.slowest = all[n-1].flushed, all[n-1].name
	v.missing = nil
	return v
}

// judgeSynchronous decides as the server decides which standbys a commit waits for, without sessions that decode.
func judgeSynchronous(s session.Synchronous, l *Look) verdict {
	if len(s.Names) == 0 {
		return verdict{flushed: unbounded, nobody: true}
	}
	var all []candidate
	seen := map[string]bool{}
	for i := range l.Senders {
		sender := &l.Senders[i]
		if !sender.physical() {
			continue
		}
		for priority, name := range s.Names {
			if name == session.AnyName || strings.EqualFold(name, sender.Name) {
				all = append(all, candidate{sender.Name, priority, l.flushed(sender)})
				seen[name] = true
				break
			}
		}
	}
	var v verdict
	for _, name := range s.Names {
		if !seen[name] {
			v.missing = append(v.missing, name)
		}
	}
	if s.Any || len(all) < s.Count {
		return v.nth(all, s.Count)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.flushed, b.flushed))
	})
	return v.nth(all[:s.Count], s.Count)
}

// Missing lists the standbys that publishing would wait for because they are not connected.
func (d Demand) Missing(l *Look) []string { return d.judge(l, nil).missing }
