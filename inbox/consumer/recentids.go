package consumer

// recent remembers the ids of the last handled records of a partition, and the ledger that has each.
type recent struct {
	ids  map[string]string
	ring []string
	next int // from -size up to 0 while the ring fills, then the index of the oldest id
}

func newRecent(size int) *recent {
	size = max(size, 0)
	return &recent{ids: map[string]string{}, ring: make([]string, 0, min(size, 64)), next: -size}
}

func (r *recent) has(id string) bool {
	_, ok := r.ids[id]
	return ok
}

// ledger returns the name of the ledger that has the id; empty: the handler used none.
func (r *recent) ledger(id string) string { return r.ids[id] }

func (r *recent) add(id, ledger string) {
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
	r.ids[id] = ledger
}
