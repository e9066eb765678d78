package main

// ofGaps are in the account of gaps, and in how they are settled.
var ofGaps = []mutant{
	{
		"begin a gap at the last check", "internal/postgres/gap/mark.go",
		"		return look, &m", "		return look, &look", "", "",
	},
	{
		"begin a gap after transactions that still ran", "internal/postgres/gap/mark.go",
		"	if m.Done == 0 && oldest >= m.Next {", "	if m.Done == 0 {", "", "",
	},
	{
		"end a gap at the check before", "internal/postgres/gap/look.go",
		"publication+\": \"+differs)\n		st.gap.ToLSN, st.gap.ToAt = s.LSN, &s.Now",
		"publication+\": \"+differs)\n		st.gap.ToLSN, st.gap.ToAt = w.ToLSN, &w.ToAt",
		"", "",
	},
	{
		"never end a gap that lasted", "internal/postgres/gap/look.go",
		"&s.Evidence, lasting.ID", "&s.Evidence, -lasting.ID", "", "",
	},
	{
		"look for gaps only while the relay runs", "internal/postgres/gap/look.go",
		"	case differs != \"\":", "	case differs != \"\" && !starts:", "", "",
	},
	{
		"look for gaps only at a start", "internal/postgres/gap/look.go",
		"	case differs != \"\":", "	case differs != \"\" && starts:", "", "",
	},
	{
		"take a table for published that is published now", "internal/postgres/gap/evidence.go",
		"		case there && !kept:", "		case there && !kept && len(r.Entries) == 0:", "", "",
	},
	{
		"take a table of the same name for the same table", "internal/postgres/gap/evidence.go",
		"		case !there && !slices", "		case false && !slices", "", "",
	},
	{
		"do not compare the options of the publication", "internal/postgres/gap/evidence.go",
		"	case e.Version != now.Version && e.Owner == now.Owner:", "	case false:", "", "",
	},
	{
		"write down what a check has seen without the gap", "internal/postgres/gap/look.go",
		"	if st.gap != nil {\n		g = *st.gap\n	}", "	_ = st.gap", "", "",
	},
	{
		"take an emptied partition for a whole one", "internal/sink/kafka/reader/retention.go",
		"	return time.Now(), nil", "	return before, nil", "", "./internal/sink/kafka/reader TestRemoved",
	},
	{
		"judge by the first record, however late it was written", "internal/sink/kafka/reader/retention.go",
		"		if router.OutOfTurn(m.Headers) {", "		if false && router.OutOfTurn(m.Headers) {", "",
		"./internal/sink/kafka/reader TestRemoved",
	},
	{
		"look for a key's records in one partition only", "internal/tools/absence/topic.go",
		"	case len(rec.Key) > 0 && !t.whole.IsZero() && !at.Before(t.whole):", "	case len(rec.Key) > 0:", "",
		"./internal/tools/absence TestDoubt",
	},
	{
		"list rows that come through the slot, too", "internal/postgres/setup/heal.go",
		`"SET TRANSACTION SNAPSHOT "+identifier.QuoteLiteral(exported)`, `"SELECT "+identifier.QuoteLiteral(exported)`,
		"", "./internal/postgres/setup TestVersionsAHealHasTheRowsOfItsSnapshot",
	},
	{
		"list the rows of a gap the newest first", "internal/postgres/setup/heal.go",
		"h.listTable(ctx, tx, i, commitOrder(timed)+orders[i])",
		`h.listTable(ctx, tx, i, "xmin::text::bigint DESC, "+orders[i])`, "",
		"./internal/postgres/setup TestVersionsAHealHasTheRowsOfItsSnapshot",
	},
	{
		"heal without a gap", "internal/postgres/setup/heal.go",
		"	if err := openGap(ctx, h.primary, h.cfg, h.before, now, gap.SlotRecreated); err != nil {",
		"	if false {", "",
		"./internal/postgres/setup TestVersionsAHealHasTheRowsOfItsSnapshot",
	},
}
