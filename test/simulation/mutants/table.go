package main

import "slices"

// mutant is a planted bug: one text of one file, replaced.
type mutant struct {
	name     string
	file     string
	from, to string
	with     string // faults and forms beside the usual ones that it takes to see it, or polling
	// test is for a bug that breaks no promise of a run, since another rule makes up for it: the package and the test
	// that fail.
	test string
}

// polling is for the bugs of source: polling, which has seeds of its own.
const polling = "polling"

// startReplication is the end of the function that decides where a stream starts, and the name of the next function.
const startReplication = "	return nil\n}\n\nfunc (c *connection) startReplication"

// mutants are all, in the order of the report.
var mutants = slices.Concat(ofTheStream, ofGaps)

// ofTheStream are in all that takes a row from the slot to Kafka, and back to a confirmed position.
var ofTheStream = []mutant{
	// the stream and its checkpoint
	{
		"confirm what was received", "replication/standbystatus.go",
		"max(uint64(c.s.checkpoint.limit(c.s.confirmed())), c.flush.Load())",
		"max(c.s.received.Load(), c.flush.Load())", "", "",
	},
	{
		"confirm before the checkpoint has it", "replication/checkpoint.go",
		"	return min(confirmed, lsn.LSN(cp.stored.Load()))", "	return confirmed", "", "",
	},
	{
		"count a checkpoint as written when it is sent", "replication/checkpointrun.go",
		"		err := cp.store(ctx, confirmed)",
		"		cp.stored.Store(uint64(confirmed))\n		err := cp.store(ctx, confirmed)",
		"", "",
	},
	{
		"start at the end of the log", "replication/connect.go", startReplication,
		"	id.Start = max(id.Start, id.WALEnd)\n" + startReplication, "", "",
	},
	{
		"start one byte late", "replication/connect.go", startReplication,
		"	id.Start++\n" + startReplication, "", "",
	},
	{
		"never notice a server that is silent", "replication/standbystatus.go", "		if idle >= silence {",
		"		if false && idle >= silence {", "", "",
	},
	{
		"never report but at the end",
		"replication/standbystatus.go",
		"		if request || c.due(now, interval) {",
		"		if request {", "", "",
	},
	{
		"give up at a slot that is held", "replication/errors.go", "		f.Err = held\n		return f",
		"		f.Err, f.Kind = held, fault.Operator\n		return f", "", "",
	},
	{
		"report less than before", "replication/standbystatus.go",
		"	flush := max(uint64(c.s.checkpoint.limit(c.s.confirmed())), c.flush.Load())",
		"	flush := uint64(c.s.checkpoint.limit(c.s.confirmed()))", "", "",
	},
	// the connector
	{
		"confirm one byte past the commit", "internal/relay/connector/reader.go", "r.tracker.Commit(m.Commit.EndLSN)",
		"r.tracker.Commit(m.Commit.EndLSN + 1)", "", "",
	},
	{
		"acknowledge a row when it is read",
		"internal/relay/connector/reader.go",
		"	r.produced = r.commit\n	return nil",
		"	r.produced = r.commit\n	_ = r.tracker.Ack([]offsets.Ticket{row.ticket}, nil)\n	return nil", "", "",
	},
	{
		"keep the window's room",
		"internal/relay/connector/ack.go",
		"	c.window.Release(n, d.Bytes)",
		"	_ = d.Bytes",
		"", "",
	},
	{
		"do not resume the tracker on a new stream",
		"internal/relay/connector/reader.go",
		"	r.tracker.Resume()\n",
		"",
		"", "",
	},
	{
		"publish rows again that the position covers", "internal/relay/connector/fencing.go",
		"	return v.any && v.timeline == timeline && pos.Compare(v.upTo) <= 0", "	return false", "", "",
	},
	{
		"cover one row less",
		"internal/relay/connector/fencing.go",
		"pos.Compare(v.upTo) <= 0",
		"pos.Compare(v.upTo) < 0",
		"", "",
	},
	{
		"cover one transaction more", "internal/relay/connector/fencing.go",
		"	return v.any && v.timeline == timeline && pos.Compare(v.upTo) <= 0",
		"	return v.any && pos.Commit <= v.upTo.Commit+200", "", "",
	},
	{
		"publish repeated rows", "internal/relay/connector/reader.go", "	if !fresh {\n		r.c.counts.repeated",
		"	if false && !fresh {\n		r.c.counts.repeated", "", "",
	},
	{
		"do not wait for the producer at a stop", "internal/relay/connector/gracefulstop.go",
		"	if err := r.c.producer.Drain(r.c.life); err != nil {\n		return err\n	}\n", "", "", "",
	},
	{
		"do not flush before waiting", "internal/relay/connector/session.go",
		"	rc.OnWait = c.producer.Flush\n", "", "", "",
	},
	// what goes wrong between two instances, and between a server and what is known of it
	{
		"do not begin again after a loss", "internal/relay/connector/ownership.go",
		"	r.lost, r.begun = true, false\n", "	r.lost = true\n", "", "",
	},
	{
		"keep the queue when the slot is lost", "internal/relay/connector/ownership.go",
		"	dropped := c.producer.Abandon()\n	c.window.Release(dropped.Records, dropped.Bytes)\n",
		"	dropped := sink.Dropped{}\n", "", "",
	},
	{
		"keep publishing while another instance has the slot", "internal/relay/connector/ownership.go",
		`	c.lose(fmt.Sprintf("backend %d holds the slot", s.HolderPID))`,
		`	c.log.Warn(fmt.Sprintf("backend %d holds the slot", s.HolderPID))`, "",
		"./internal/relay/connector TestTenureEndsWhenAnotherSessionHasTheSlot",
	},
	{
		"do not notice that another instance moved the slot", "internal/relay/connector/session.go",
		`		c.lose("another instance moved the slot")`,
		`		c.log.Warn("another instance moved the slot")`, "",
		"./internal/relay/connector TestPositionsStartOverWhenTheyLostTheirMeaning",
	},
	{
		"do not ask whether the epoch is still ours", "internal/relay/connector/fencing.go",
		"		err := c.producer.Keep(ctx)\n", "		var err error\n", "",
		"./internal/relay/connector TestTenureAsksAfterAnInterruption",
	},
	{
		"do not ask whether the slot is still ours", "internal/relay/connector/fencing.go",
		"		err = s.Holds(ctx)\n", "		err = nil\n", "",
		"./internal/relay/connector TestTenureNeedsTheSlotAfterBegin",
	},
	{
		"confirm before the epoch is known to be ours", "replication/slotholder.go",
		"	if s.withheld.Load() {", "	if false && s.withheld.Load() {", "",
		"./replication TestConfirmIsWithheld",
	},
	{
		"leave transaction_timeout as it is", "internal/postgres/session/override.go",
		`		"transaction_timeout": "0", "statement_timeout"`, `		"statement_timeout"`, "", "",
	},
	{
		"forget what was confirmed while the checkpoint was off", "replication/checkpoint.go",
		"		judged.Position = max(judged.Position, known)", "		_ = known", "",
		"./replication TestCheckpointRightsTakenAndGiven",
	},
	{
		"start at the slot after a crash of the server", "replication/checkpoint.go",
		"	id.ConfirmedFlush = position\n", "", "", "",
	},
	{
		"publish before the named standbys have a transaction", "internal/postgres/standbys/gate.go",
		"	return uint64(commit) < g.passed.Load() || len(g.cfg.Names) == 0\n", "	return true\n", "", "",
	},
	{
		"take the start of a commit record for its end", "internal/postgres/standbys/gate.go",
		"		r.target = l.flushedTo\n", "		r.target = r.commit\n", "", "",
	},
	{
		"take what the server has written for what the standby has", "internal/postgres/standbys/horizon.go",
		"h.pending[reached] <= flushed", "h.pending[reached] <= max(flushed, inserted)", "", "",
	},
	{
		"take a standby that is not connected for one that has everything",
		"internal/postgres/standbys/requiredstandbys.go",
		"			v.missing = append(v.missing, name)\n		}\n	}\n	return v.nth(all, d.Needed())",
		"			all = append(all, candidate{name: name, flushed: unbounded})\n		}\n	}\n" +
			"	return v.nth(all, d.Needed())", "", "",
	},
	{
		"take the answer of a server that does not serve the stream", "internal/postgres/standbys/gate.go",
		"	if l.HolderPID != pid || l.InRecovery {", "	if l.InRecovery {", "", "",
	},
	{
		"keep the horizon of an earlier server", "internal/postgres/standbys/gate.go",
		"	g.pid, g.horizon, g.trouble = pid, horizon{}, nil", "	g.pid, g.trouble = pid, nil", "",
		"./internal/postgres/standbys TestGateForgetsWithTheStream",
	},
	{
		"do not notice that the stream is dead while a transaction waits", "internal/postgres/standbys/stalestream.go",
		"	case g.elsewhere <- struct{}{}:", "	case make(chan struct{}, 1) <- struct{}{}:", "", "",
	},
	{
		"do not compare the checkpoint's number with what this process wrote", "replication/checkpointmark.go",
		"	if err := cp.judge(cp.last, \"this connector\", row); err != nil {\n		return err\n	}\n", "", "",
		"./replication TestCheckpointNoticesRestoredServer",
	},
	{
		"do not compare the checkpoint's number with Kafka's", "replication/checkpointmark.go",
		"	if err := cp.judge(kept, holder, row); err != nil {\n		return err\n	}\n", "	_ = holder\n", "",
		"./replication TestCheckpointNoticesRestoredServer",
	},
	{
		"trust the position in Kafka", "internal/relay/connector/restoredserver.go",
		"pending: stored.XID != 0", "pending: false", "",
		"./internal/relay/connector TestStoredPositionThatTheLogDoesNotHaveIsRefused",
	},
	{
		"trust what was read before an interruption", "internal/relay/connector/restoredserver.go",
		"			pending: true, upTo:", "			pending: false, upTo:", "",
		"./internal/relay/connector TestStreamWithAnotherLogIsRefused",
	},
	{
		"write the checkpoint without the slot", "replication/checkpointwrite.go",
		"	if !cp.far {\n		held", "	if false {\n		held", "",
		"./replication TestCheckpointIsWrittenByTheHolderOnly",
	},
	{
		"do not look again at the checkpoint", "replication/checkpointmark.go",
		"	case at > lsn.LSN(cp.stored.Load()) && !cp.far:", "	case false:", "",
		"./replication TestCheckpointThatWasWrittenLate",
	},
	{
		"take a row that was given back for handed over", "internal/relay/connector/reader.go",
		"		r.tracker.TakeBack()\n", "", "",
		"./internal/relay/connector TestARowThatWaitsForRoomLeavesABrokenStream",
	},
	// the producer
	{
		"take NOT_ENOUGH_REPLICAS for success", "internal/sink/kafka/wire/codes.go",
		`19: {19, "NOT_ENOUGH_REPLICAS", Rewind, sink.NotEnoughReplicas}`,
		`19: {19, "NOT_ENOUGH_REPLICAS", Done, sink.NotEnoughReplicas}`,
		"", "",
	},
	{
		"take KAFKA_STORAGE_ERROR for success", "internal/sink/kafka/wire/codes.go",
		`56:  {56, "KAFKA_STORAGE_ERROR", Refresh, sink.NoLeader}`,
		`56:  {56, "KAFKA_STORAGE_ERROR", Done, sink.NoLeader}`,
		"", "",
	},
	{
		"give up a producer id at a lost leader", "internal/sink/kafka/wire/codes.go",
		`6:   {6, "NOT_LEADER_OR_FOLLOWER", Refresh, sink.NoLeader}`,
		`6:   {6, "NOT_LEADER_OR_FOLLOWER", Fenced, sink.NoLeader}`,
		"", "",
	},
	{
		"take a lost connection for success", "internal/sink/kafka/recovery.go",
		`var connectionLost = wire.Verdict{Code: -2, Name: "CONNECTION_LOST", Action: wire.Refresh, Trouble: ""}`,
		`var connectionLost = wire.Verdict{Code: -2, Name: "CONNECTION_LOST", Action: wire.Done, Trouble: ""}`, "", "",
	},
	{
		"do not send again after a rewind", "internal/sink/kafka/partition.go",
		"	part.inflight = part.requeue(part.inflight)\n	part.state = probing",
		"	part.inflight = part.inflight[:0]\n	part.state = probing", "", "",
	},
	{
		"send again after what is newer", "internal/sink/kafka/partition.go",
		"	part.queued = slices.Insert(part.queued, 0, batches...)",
		"	part.queued = append(part.queued, batches...)",
		"", "",
	},
	{
		"rewind before everything is answered", "internal/sink/kafka/partition.go",
		"return part.state == draining && part.unanswered == 0", "return part.state == draining", "", "",
	},
	{
		"take new sequences for a repeat",
		"internal/sink/kafka/partition.go",
		"	if !b.sequenced {",
		"	if true {",
		"", "",
	},
	{
		"acknowledge in the order of answers", "internal/sink/kafka/partition.go",
		"		if part.inflight[0] != b {\n			return false // after a failed batch\n		}\n", "", "",
		"./internal/sink/kafka TestRewind",
	},
	{
		"never back off and never come back", "internal/sink/kafka/recovery.go",
		"	p.waiting[part] = struct{}{}\n", "", "", "",
	},
	{
		"acknowledge before the transaction has ended", "internal/sink/kafka/ackcallback.go",
		"		p.tx.hold(b)\n",
		"		p.tx.hold(b)\n		b.part.held = b.part.held[:len(b.part.held)-1]\n" +
			"		p.completed = append(p.completed, b)\n		poke(p.acks)\n",
		"", "",
	},
	{
		"ask for the position's place before the leaders have asked", "internal/sink/kafka/transaction.go",
		"return t.entered >= len(t.parts) || t.acked == t.records }", "return true }", "",
		"./internal/sink/kafka TestThePositionWaitsForTheLeaders",
	},
	{
		"commit without a position", "internal/sink/kafka/transactionsteps.go",
		"	t.positioned = ok\n	return wait", "	t.positioned = ok || true\n	return wait", "", "",
	},
	{
		"go on under the same epoch after a lost answer", "internal/sink/kafka/transactionsteps.go",
		"	if t.doubtful {", "	if false && t.doubtful {", "",
		"./internal/sink/kafka TestEndTxnArrivesLate",
	},
	{
		"take a timed out transaction for a successor", "internal/sink/kafka/sessionend.go",
		" && ousted && !p.tx.timedOut() {", " && ousted {", "",
		"./internal/sink/kafka TestTransactionTimedOut",
	},
	{
		"send on after the sequence was lost", "internal/sink/kafka/recovery.go",
		"		p.lose(part.object(), cause)\n	case wire.Mute:",
		"		p.postpone(part, cause, p.cfg.pace.delay(part.attempt))\n	case wire.Mute:", "",
		"./internal/sink/kafka TestMatrixProduce",
	},
	{
		"keep the sequence of the session before", "internal/sink/kafka/abandon.go",
		"	part.restart()\n", "", "", "",
	},
	{
		"keep what was acknowledged in a transaction that is given up", "internal/sink/kafka/abandon.go",
		"{part.queued, part.held}", "{part.queued}", "", "",
	},
	{
		"forget the refusal of a record", "internal/sink/kafka/rememberedrefusal.go",
		"	t.refused.of[fingerprint(rec)] = refusal{err, t.settings, t.refused.last}\n", "	_ = err\n", "",
		"./internal/sink/kafka TestRefused",
	},
	{
		"read a position that may still change", "internal/sink/kafka/wire/offsetfetch.go",
		"	req = append(req, 0, flag(stable), 0) // tagged fields of the topic, require_stable, tagged fields",
		"	req = append(req, 0, 0, 0)", "",
		"./internal/sink/kafka/wire TestOffsetFetchAsksForAStableOffset",
	},

	// the lanes of source: polling
	{
		"renew a claim by making another", "internal/relay/polling/claim.go",
		`		sql = s.keep(want) + "; COMMIT; " + sql + "; " + s.letGo(want)`, `		sql = "COMMIT; " + sql`,
		polling, "",
	},
	{
		"wait for an answer without an end", "internal/relay/polling/claim.go",
		"cmp.Or(c.patience, firstPatience)", "cmp.Or(c.patience*0, time.Hour)", polling, "",
	},
	{
		"mark rows that are with the producer", "internal/relay/polling/batch.go",
		"		if b.rows[i].state == settled {\n			indexes",
		"		if b.rows[i].state >= flying {\n			indexes", polling, "",
	},
	{
		"mark once", "internal/relay/polling/worker.go",
		"		if err == nil || fault.KindOf(err) != fault.Retry || ctx.Err() != nil {",
		"		if err == nil || fault.KindOf(err) == fault.Retry || ctx.Err() != nil {", polling, "",
	},
	{
		"mark without the claim", "internal/relay/polling/worker.go",
		"		if lanes := w.batch.unmarked(); len(lanes) > 0 && ctx.Err() == nil {",
		"		if lanes := w.batch.unmarked(); false && len(lanes) > 0 {", polling,
		"./internal/relay/polling TestALostClaimIsMadeAgainBeforeMarking",
	},
	{
		"two workers of a process in one lane", "internal/relay/polling/worker.go",
		"	defer s.lanes.give(mine)\n", "	s.lanes.give(mine)\n", polling, "",
	},
	{
		"pass over rows that are cut off a batch", "internal/relay/polling/claim.go",
		"cut = cut || len(b.rows) > 0 && len(b.arena) >= bytes;", "cut = !cut && len(b.rows)%3 == 2;", polling, "",
	},
}
