package outboxtable

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Filter chooses rows of an outbox table; what is empty chooses nothing out. Since and Until are of the timestamp
// column, Until excluded.
type Filter struct {
	AggregateTypes, AggregateIDs, IDs []string

	Since, Until time.Time
}

// Match chooses a row that comes from elsewhere than the table, as the server would choose it there. Values are
// compared as Postgres prints them, so an id may not be written differently, but for a uuid's letters and hyphens.
func (f *Filter) Match(columns postgres.Columns, rel *pgoutput.Relation, row pgoutput.Tuple) (bool, error) {
	for _, c := range []struct {
		column string
		any    []string
	}{{columns.AggregateType, f.AggregateTypes}, {columns.AggregateID, f.AggregateIDs}, {columns.ID, f.IDs}} {
		if len(c.any) == 0 {
			continue
		}
		i, err := columnOf(rel, c.column)
		if err != nil {
			return false, err
		}
		have := string(row[i].Data)
		if row[i].Kind != pgoutput.Text || !slices.ContainsFunc(c.any, func(want string) bool {
			return want == have || rel.Columns[i].TypeOID == uuidOID && plainUUID(want) == plainUUID(have)
		}) {
			return false, nil
		}
	}
	if f.Since.IsZero() && f.Until.IsZero() {
		return true, nil
	}
	i, err := columnOf(rel, columns.Timestamp)
	if err != nil || row[i].Kind != pgoutput.Text {
		return false, err // a row without a time lies in no range
	}
	order, at, err := parseTime(string(row[i].Data))
	if err != nil {
		return false, err
	}
	if order != 0 {
		return order < 0 && f.Since.IsZero() || order > 0 && f.Until.IsZero(), nil
	}
	return !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until)), nil
}

func columnOf(rel *pgoutput.Relation, name string) (int, error) {
	i := slices.IndexFunc(rel.Columns, func(c pgoutput.Column) bool { return c.Name == name })
	if i < 0 {
		return 0, fmt.Errorf("there is no column %s in it", identifier.Quote(name))
	}
	return i, nil
}

const uuidOID = 2950

// plainUUID is a uuid without what may be written in one way or another (Postgres docs 8.12).
func plainUUID(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "{", "", "}", "").Replace(s))
}

// parseTime reads a timestamp or date as Postgres prints it under TextSettings. order is -1 or 1 for one before or
// after all that Go's layouts can say.
func parseTime(text string) (order int, at time.Time, err error) {
	year, _, _ := strings.Cut(text, "-")
	switch {
	case text == "-infinity" || strings.HasSuffix(text, " BC"):
		return -1, at, nil
	case text == "infinity" || len(year) > 4:
		return 1, at, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999-07", "2006-01-02 15:04:05.999999", "2006-01-02"} {
		if at, err = time.Parse(layout, text); err == nil {
			return 0, at, nil
		}
	}
	return 0, at, fmt.Errorf("the timestamp is not written as Postgres writes one")
}
