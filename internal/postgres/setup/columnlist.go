package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// codeColumns is the code of the finding about columns that are sent and not read. Programs rely on it.
const codeColumns = "unread_columns"

// unreadColumns splits the columns that the stream carries: records are built from the first, and not from the second.
// Both are nil where a column list is not possible, exists already, or would save nothing. Generated columns are
// mostly not sent.
func unreadColumns(cfg Config, st state, t postgres.OutboxTable) (read, unread []string) {
	p := st.Publication
	pt, ok := p.Table(t.Table)
	if !ok || st.Server.Version < 150000 || p.AllTables || p.Update || p.Delete || pt.RowFilter != "" {
		return nil, nil
	}
	for _, c := range t.Columns {
		switch {
		case c.Generated && !slices.Contains(pt.Columns, c.Name):
		case pt.Columns != nil && !slices.Contains(pt.Columns, c.Name): // there is a list
			return nil, nil
		case needs(cfg.Columns, c.Name):
			read = append(read, identifier.Quote(c.Name))
		default:
			unread = append(unread, identifier.Quote(c.Name))
		}
	}
	if len(read) == 0 || len(unread) == 0 {
		return nil, nil
	}
	return read, unread
}

func needs(m postgres.Columns, column string) bool {
	return slices.Contains([]string{m.ID, m.AggregateType, m.AggregateID, m.Timestamp}, column) ||
		slices.ContainsFunc(m.Needed, func(n postgres.NeededColumn) bool { return n.Name == column })
}

// columnListSQL replaces the entries of all tables, in one statement: a table that is dropped and added again would be
// missing in between. Only a publication of exactly the configured tables has one.
func columnListSQL(cfg Config, st state) (sql string, unread []string) {
	var entries []string
	for _, pt := range st.Publication.Tables {
		i := slices.IndexFunc(st.Tables, func(t postgres.OutboxTable) bool { return t.Table == pt.Table })
		if i < 0 {
			return "", nil
		}
		read, rest := unreadColumns(cfg, st, st.Tables[i])
		if rest == nil {
			return "", nil
		}
		entries = append(entries, fmt.Sprintf("%s (%s)", pt.Table.SQL(), strings.Join(read, ", ")))
		unread = append(unread, rest...)
	}
	if len(entries) == 0 {
		return "", nil
	}
	return fmt.Sprintf("ALTER PUBLICATION %s SET TABLE %s;", identifier.Quote(cfg.Publication),
		strings.Join(entries, ", ")), unread
}

const (
	listSaves = "A column list saves about a tenth of the walsender's CPU per row where it leaves out two narrow " +
		"columns of seven, and more for wide ones."
	listCosts = "A column that is mapped later has to be in the list first: rows written before never get it. Dead " +
		"letters hold only listed columns."
)

// planColumnList offers a column list. It is never carried out: the line is a comment.
func planColumnList(cfg Config, st state) []Step {
	sql, unread := columnListSQL(cfg, st)
	if sql == "" {
		return nil
	}
	return []Step{{
		SQL: "-- " + sql, action: stepKept,
		Why: fmt.Sprintf("Optional, and never done by setup: no record is built from %s.\n%s\n%s",
			strings.Join(unread, ", "), listSaves, listCosts),
	}}
}

func checkColumnList(cfg Config, st state) []preflight.Finding {
	sql, unread := columnListSQL(cfg, st)
	if sql == "" {
		return nil
	}
	f := preflight.Fine(cfg.PublicationSubject(), fmt.Sprintf("It sends %s, which no record is built from. %s %s "+
		"`cdc-outbox setup --dry-run` prints it.", strings.Join(unread, ", "), listSaves, listCosts))
	f.Code = codeColumns
	return []preflight.Finding{f}
}
