package audit

import (
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/atfile"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// ParseLedgers reads the flags: consumers as NAME, NAME=DSN or NAME=@FILE, the ledger's table, and for consumers that
// handle some aggregate types only, NAME=TYPE.
func ParseLedgers(consumers []string, table string, only []string) ([]Ledger, error) {
	// A name without a schema is looked up by the search_path of the ledger's database.
	sql := identifier.Quote(table)
	if strings.ContainsAny(table, `."`) {
		t, err := identifier.ParseTable(table)
		if err != nil {
			return nil, fault.Usage("--ledger: "+err.Error(), "name the table as SQL does")
		}
		sql = t.SQL()
	}
	var ledgers []Ledger
	for _, text := range consumers {
		name, dsn, _ := strings.Cut(text, "=")
		if name == "" {
			return nil, fault.Usage("--consumer has no name", "write NAME, NAME=DSN or NAME=@FILE")
		}
		dsn, err := atfile.Read(dsn)
		if err != nil {
			return nil, fault.Usage("--consumer: the file of "+fault.Printable(name)+" cannot be read",
				"write a connection string into the file")
		}
		ledgers = append(ledgers, Ledger{Consumer: name, DSN: dsn, Table: sql})
	}
	if len(ledgers) == 0 {
		return nil, fault.Usage("no consumer is named", "name a ledger with --consumer NAME (inbox.Options.Consumer)")
	}
	for _, text := range only {
		name, kind, _ := strings.Cut(text, "=")
		known := false
		for i := range ledgers {
			if ledgers[i].Consumer == name && kind != "" {
				ledgers[i].Types, known = append(ledgers[i].Types, kind), true
			}
		}
		if !known {
			return nil, fault.Usage("--only names no consumer and type", "write NAME=TYPE for a --consumer NAME")
		}
	}
	return ledgers, nil
}
