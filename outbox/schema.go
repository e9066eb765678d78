package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Schema returns the SQL that creates the outbox table and its index if they do not exist. Run it with the migrations
// of the application, before the connector's publication is created for the table. The CHECK constraints refuse rows
// that the connector cannot publish, whatever program writes them.
//
// With Options.Partitioned the table is partitioned by created_at. Dropping a partition then deletes old events without
// work for VACUUM. Partitions returns the SQL of the partitions for future days. The table also gets a default
// partition, because an INSERT without a matching partition would fail and abort the application's transaction. The
// primary key then includes created_at, so it does not prevent an id from being used twice.
//
// The text may run at each start of the application: CREATE INDEX IF NOT EXISTS would lock the table before it looks,
// and have all writers wait for the longest open transaction, so the catalog is looked at first.
func Schema(opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	id, key, partitioned, rest := "PRIMARY KEY ", "", "", ""
	if opts.Partitioned {
		id, key, partitioned = "NOT NULL ", ",\n    PRIMARY KEY (id, created_at)", " PARTITION BY RANGE (created_at)"
		rest = fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s DEFAULT;\n",
			opts.suffixed("_default").table(), opts.table())
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %[1]s (
    id             uuid        %[5]sDEFAULT gen_random_uuid(),
    aggregate_type text        NOT NULL CHECK (aggregate_type ~ '^[a-zA-Z0-9._-]{1,%[2]d}$'
                                               AND aggregate_type !~ '^(__.*|\.\.?)$'),
    aggregate_id   text        NOT NULL CHECK (aggregate_id <> ''),
    event_type     text        NOT NULL CHECK (event_type <> ''),
    payload        %[3]s,
    headers        jsonb       CHECK (jsonb_typeof(headers) = 'object'
                                      AND headers - ARRAY['id', 'type', 'position', ''] = headers),
    created_at     timestamptz NOT NULL DEFAULT now()%[6]s
)%[7]s;
%[8]s%[4]s`, opts.table(), maxAggregateType, opts.Payload, opts.createIndex(), id, key, partitioned, rest), nil
}

// createIndex returns the statement that creates the index for pruning if there is none.
func (o Options) createIndex() string {
	name := o.index()
	body := fmt.Sprintf(`
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
                   WHERE i.indrelid = %s::pg_catalog.regclass
                   AND c.relname = %s) THEN
        CREATE INDEX IF NOT EXISTS %s ON %s (created_at);
    END IF;
END`, literal(o.table()), literal(name), pgx.Identifier{name}.Sanitize(), o.table())
	quote := "$do$"
	for strings.Contains(body, quote) { // in a name
		quote = "$" + quote[1:len(quote)-1] + "o$"
	}
	return "DO " + quote + body + "\n" + quote + ";\n"
}

// index returns the name of the index for pruning, as Postgres would choose it.
func (o Options) index() string { return o.suffixed("_created_at_idx").Table }

// literal quotes a text. A backslash means itself (standard_conforming_strings).
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Partitions returns the SQL that creates the partitions of a partitioned table for a number of days (UTC), beginning
// with the day of from. Existing partitions are left alone. Run the SQL well in advance: once events of a day are in
// the default partition, that day can no longer get a partition of its own.
func Partitions(opts Options, from time.Time, days int) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	if !opts.Partitioned || days < 1 {
		return "", errors.New("outbox: Partitions needs Options.Partitioned and at least one day")
	}
	const midnight = "2006-01-02 00:00:00+00"
	var b strings.Builder
	day := from.UTC().Truncate(24 * time.Hour)
	for range days {
		next := day.AddDate(0, 0, 1)
		fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s');\n",
			opts.suffixed(day.Format("_20060102")).table(), opts.table(), day.Format(midnight), next.Format(midnight))
		day = next
	}
	return b.String(), nil
}

// suffixed returns options for a table named after o.Table, cut to the length that Postgres accepts.
func (o Options) suffixed(suffix string) Options {
	if cut := maxIdentifier - len(suffix); len(o.Table) > cut {
		for cut > 0 && o.Table[cut]&0xC0 == 0x80 { // not inside a character
			cut--
		}
		o.Table = o.Table[:cut]
	}
	o.Table += suffix
	return o
}
