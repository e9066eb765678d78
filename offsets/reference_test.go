package offsets

import "time"

// reference is the tracker written without regard to memory or time: it keeps every row of the session.
type reference struct {
	base, kept LSN // where the session began; the highest keepalive taken
	txs        []*referenceTx
	open       *referenceTx
	index      int // rows of open seen on this stream
}

type referenceTx struct {
	commit, end LSN // end 0: its Commit has not come
	acked       []bool
	finished    bool
}

func (r *reference) find(commit LSN) *referenceTx {
	for _, tx := range r.txs {
		if tx.commit == commit {
			return tx
		}
	}
	return nil
}

func (r *reference) begin(commit LSN) {
	r.index = 0
	if r.open = r.find(commit); r.open != nil {
		return
	}
	r.open = &referenceTx{commit: commit}
	if commit >= r.base {
		r.txs = append(r.txs, r.open)
	}
}

// add: fresh is the first time this row comes in the session, unless it lies below its start.
func (r *reference) add() (pos Position, fresh bool) {
	pos = Position{Commit: r.open.commit, Index: uint32(r.index)}
	if fresh = r.open.commit >= r.base && r.index == len(r.open.acked); fresh {
		r.open.acked = append(r.open.acked, false)
	}
	r.index++
	return pos, fresh
}

func (r *reference) commitTx(end LSN) {
	r.open.end, r.open = end, nil
}

func (r *reference) observe(walEnd LSN) {
	if rows, _, _ := r.outstanding(); rows > 0 || r.isOpen() {
		return
	}
	r.kept = max(r.kept, walEnd)
}

func (r *reference) isOpen() bool {
	if r.open != nil {
		return true
	}
	for _, tx := range r.txs {
		if tx.end == 0 {
			return true
		}
	}
	return false
}

func (tx *referenceTx) done() bool {
	if tx.end == 0 {
		return false
	}
	for _, acked := range tx.acked {
		if !acked {
			return false
		}
	}
	return true
}

func (r *reference) confirmed() LSN {
	confirmed := max(r.base, r.kept)
	for _, tx := range r.txs {
		if !tx.done() {
			break
		}
		confirmed = max(confirmed, tx.end)
	}
	return confirmed
}

func (r *reference) outstanding() (rows, unconfirmed int, oldest time.Time) {
	confirmed := r.confirmed()
	for _, tx := range r.txs {
		if tx.commit < confirmed || len(tx.acked) == 0 {
			continue
		}
		if oldest.IsZero() {
			oldest = at(tx.commit)
		}
		unconfirmed += len(tx.acked)
		for _, acked := range tx.acked {
			if !acked {
				rows++
			}
		}
	}
	return rows, unconfirmed, oldest
}

// newlyFinished lists the transactions with rows that became done since the last call.
func (r *reference) newlyFinished() (commits []LSN) {
	for _, tx := range r.txs {
		if tx.done() && !tx.finished && len(tx.acked) > 0 {
			tx.finished = true
			commits = append(commits, tx.commit)
		}
	}
	return commits
}
