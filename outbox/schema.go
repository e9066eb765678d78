package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Schema returns the SQL that creates the outbox table and its index if they don't exist. Run it with the migrations of
// the application, before the connector's publication is created for the table. The CHECK constraints refuse the
// rows that the connector couldn't publish, whoever writes them.
//
// With Options.Partitioned the table is partitioned by created_at: old events go by dropping a partition, without work for VACUUM. A partition for all
// that no other takes is part of it, as an INSERT that finds no partition would fail, and the application's transaction with it. Partitions prints
// those for days to come. The primary key then holds created_at, too, so it doesn't keep an id from being used twice.
func Schema(opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	id, key, partitioned, rest := "PRIMARY KEY ", "", "", ""
	if opts.Partitioned {
		id, key, partitioned = "NOT NULL ", ",\n    PRIMARY KEY (id, created_at)", " PARTITION BY RANGE (created_at)"
		rest = fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF %s DEFAULT;\n", opts.suffixed("_default").table(), opts.table())
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %[1]s (
    id             uuid        %[5]sDEFAULT gen_random_uuid(),
    aggregate_type text        NOT NULL CHECK (aggregate_type ~ '^[a-zA-Z0-9._-]{1,%[2]d}$' AND aggregate_type !~ '^(__.*|\.\.?)$'),
    aggregate_id   text        NOT NULL CHECK (aggregate_id <> ''),
    event_type     text        NOT NULL CHECK (event_type <> ''),
    payload        %[3]s,
    headers        jsonb       CHECK (jsonb_typeof(headers) = 'object' AND headers - ARRAY['id', 'type', 'position', ''] = headers),
    created_at     timestamptz NOT NULL DEFAULT now()%[6]s
)%[7]s;
%[8]sCREATE INDEX IF NOT EXISTS %[4]s ON %[1]s (created_at);
`, opts.table(), maxAggregateType, opts.Payload, opts.index(), id, key, partitioned, rest), nil
}

// Partitions returns the SQL that creates the partitions of a partitioned table for the given number of days (UTC), the first of which is that of
// from, where they don't exist. Run it well ahead: a day whose events have begun to arrive in the default partition can't be given one of its own any more.
func Partitions(opts Options, from time.Time, days int) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	if !opts.Partitioned || days < 1 {
		return "", errors.New("outbox: partitions are for Options.Partitioned, and for at least one day")
	}
	var b strings.Builder
	day := from.UTC().Truncate(24 * time.Hour)
	for range days {
		next := day.AddDate(0, 0, 1)
		fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s');\n",
			opts.suffixed(day.Format("_20060102")).table(), opts.table(), day.Format("2006-01-02 00:00:00+00"), next.Format("2006-01-02 00:00:00+00"))
		day = next
	}
	return b.String(), nil
}

// index names the index that serves pruning, as Postgres would name it.
func (o Options) index() string {
	return pgx.Identifier{o.suffixed("_created_at_idx").Table}.Sanitize()
}

// suffixed is a name that goes with the table, cut to what Postgres takes.
func (o Options) suffixed(suffix string) Options {
	if cut := maxIdentifier - len(suffix); len(o.Table) > cut {
		for cut > 0 && o.Table[cut]&0xC0 == 0x80 { // not within a character
			cut--
		}
		o.Table = o.Table[:cut]
	}
	o.Table += suffix
	return o
}
