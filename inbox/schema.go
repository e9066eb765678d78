package inbox

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Schema returns the SQL that creates the ledger if it does not exist. Run it with the migrations of the application.
// Of the options only Schema and Table are used.
//
// The ids are text, because not every producer's ids are UUIDs. Their length is limited, because an entry of a btree
// index has at most 2,704 bytes. Their collation is "C", because byte order does not change with an upgrade of the
// operating system's library; an index corrupted by such an upgrade would let duplicates pass. claimed_at is the start
// of the transaction and never changes, so completing a row does not touch an index (a HOT update). The lock lets
// several instances run the statements at their start at the same time: IF NOT EXISTS alone does not (23505). It needs
// all statements in one transaction, which is how Postgres takes a text of several. CREATE INDEX IF NOT EXISTS locks
// the table before it looks, and would wait for each handler that is at work, with all claims after it; so the catalog
// is looked at first.
func Schema(opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('cdc-outbox inbox.Schema')::bigint);
CREATE TABLE IF NOT EXISTS %[1]s (
    consumer     text COLLATE "C" NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND %[2]d),
    event_id     text COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND %[3]d),
    status       text             NOT NULL CHECK (status IN ('PROCESSING', 'COMPLETED')),
    source       text             CHECK (octet_length(source) <= %[4]d),
    claimed_at   timestamptz      NOT NULL DEFAULT now(),
    completed_at timestamptz,
    PRIMARY KEY (consumer, event_id)
);
%[5]s`, opts.table(), maxConsumer, maxEventID, maxSource, opts.createIndex()), nil
}

// createIndex returns the statement that creates the index for pruning if there is none.
func (o Options) createIndex() string {
	body := fmt.Sprintf(`
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
                   WHERE i.indrelid = %s::pg_catalog.regclass
                   AND c.relname = %s) THEN
        CREATE INDEX IF NOT EXISTS %s ON %s (consumer, claimed_at);
    END IF;
END`, literal(o.table()), literal(o.indexName()), pgx.Identifier{o.indexName()}.Sanitize(), o.table())
	quote := "$do$"
	for strings.Contains(body, quote) { // in a name
		quote = "$" + quote[1:len(quote)-1] + "o$"
	}
	return "DO " + quote + body + "\n" + quote + ";\n"
}

// literal quotes a text. A backslash means itself (standard_conforming_strings).
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// indexName returns the name of the index for pruning.
func (o Options) indexName() string { return o.suffixed("_claimed_at_idx") }

// suffixed returns the table's name with a suffix, cut so that Postgres takes it.
func (o Options) suffixed(suffix string) string {
	table := o.Table
	if cut := maxIdentifier - len(suffix); len(table) > cut {
		for cut > 0 && table[cut]&0xC0 == 0x80 { // not inside a character
			cut--
		}
		table = table[:cut]
	}
	return table + suffix
}
