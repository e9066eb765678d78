package setup

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// codeFilters is the code of findings about publications that share a table by row filters. Programs rely on it.
const codeFilters = "row_filters"

// checkFilters judges a table of which several publications send a part each. Between them they have to send each row,
// and once.
func checkFilters(cfg Config, set filterSet, t postgres.OutboxTable) []preflight.Finding {
	subject := "table " + t.Table.String()
	v, s := judgeFilters(set, t), set.Sample
	finding := func(level preflight.Level, found, why string, r fault.Remedy) []preflight.Finding {
		f := preflight.Finding{Level: level, Code: codeFilters, Subject: subject, Found: found, Why: why}
		return []preflight.Finding{f.With(r)}
	}
	missing := v.Missing
	if s.None > 0 {
		missing = fmt.Sprintf("%d of the last %d rows, for example id %s", s.None, s.Rows,
			fault.Printable(s.NoneExample))
	}
	twice := v.Twice
	if s.Many > 0 {
		twice = fmt.Sprintf("%d of the last %d rows, for example id %s", s.Many, s.Rows,
			fault.Printable(s.Example))
	}
	shared := fmt.Sprintf("Publications %s share the table by row filters", set.names())
	switch {
	case missing != "":
		return finding(preflight.Fail, fmt.Sprintf("%s, and no filter holds for %s.", shared, missing),
			"Those rows are never sent, without notice.",
			fault.Do("Change the filters so that exactly one holds for each row; a filter that is NULL does not hold. "+
				"This lists the rows that are in none.", set.noneSQL(t)).Then(postgres.Republish()))
	case twice != "":
		return finding(preflight.Warn, fmt.Sprintf("%s, and several filters hold for %s.", shared, twice),
			"These rows are published by more than one relay, where each of the publications has one.",
			fault.Do("Change the filters so that exactly one holds for each row."))
	case v.Doubt == "":
		return []preflight.Finding{set.fine(cfg, subject,
			fmt.Sprintf("Whole: publications %s share the table, each row goes to exactly one.", set.names()))}
	case s.Rows > 0:
		return []preflight.Finding{set.fine(cfg, subject, fmt.Sprintf(
			"%s: on %d sampled rows each goes to exactly one; it is not proven, because %s.", shared, s.Rows, v.Doubt))}
	}
	sample := "the table has no rows to try them on"
	if s.Err != "" {
		sample = s.Err
	}
	return finding(preflight.Warn,
		fmt.Sprintf("%s; it is not proven that each row goes to one: %s, and %s.", shared, v.Doubt, sample),
		"Rows for which no filter holds are never sent, without notice.",
		fault.Do("Compare one expression of NOT NULL columns with all of its values, and let the role read the table.",
			set.noneSQL(t)))
}

// fine adds what is known about readers: a publication that no slot reads sends its part to no one.
func (s filterSet) fine(cfg Config, subject, found string) preflight.Finding {
	if s.Slots >= 0 && s.Slots < len(s.Shares) {
		found += fmt.Sprintf(" Each needs a relay of its own: table %s knows %d slots of this database for these %d "+
			"publications.", cfg.Checkpoint, s.Slots, len(s.Shares))
	}
	f := preflight.Fine(subject, found)
	f.Code = codeFilters
	return f
}
