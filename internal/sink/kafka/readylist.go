package kafka

// readyList holds the partitions of a broker that have something to send, in the order in which they became ready. A
// partition keeps its place while it is ready, whatever is acknowledged or added meanwhile.
type readyList struct {
	first, last *partition
	n           int
}

// add puts the partition at the end.
func (l *readyList) add(part *partition) {
	part.isReady, part.before, part.next = true, l.last, nil
	if l.last == nil {
		l.first = part
	} else {
		l.last.next = part
	}
	l.last = part
	l.n++
}

// remove takes the partition out of its place.
func (l *readyList) remove(part *partition) {
	if part.before == nil {
		l.first = part.next
	} else {
		part.before.next = part.next
	}
	if part.next == nil {
		l.last = part.before
	} else {
		part.next.before = part.before
	}
	part.isReady, part.before, part.next = false, nil, nil
	l.n--
}
