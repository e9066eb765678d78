package consumer

// recent remembers the ids of the last records of a partition that were handled without a ledger. With one, the ledger
// is asked about each repeat: an operator may have deleted an event's row to have the event handled again.
type recent struct {
	ids  map[string]struct{}
	ring []string
	next int // from -size up to 0 while the ring fills, then the index of the oldest id
}

func newRecent(size int) *recent {
	size = max(size, 0)
	return &recent{ids: map[string]struct{}{}, ring: make([]string, 0, min(size, 64)), next: -size}
}

func (r *recent) has(id string) bool {
	_, ok := r.ids[id]
	return ok
}

func (r *recent) add(id string) {
	if r.has(id) {
		return
	}
	switch {
	case r.next < 0:
		r.ring = append(r.ring, id)
		r.next++
	case len(r.ring) == 0:
		return
	default:
		delete(r.ids, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % len(r.ring)
	}
	r.ids[id] = struct{}{}
}
