package inbox

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Schema returns the SQL that creates the ledger if it doesn't exist; run it with the migrations of the application. Only Schema and Table of the options are looked at.
//
// The ids are text, as not every producer's are UUIDs, and bounded, as an entry of a btree index holds 2,704 bytes at most. Their collation is "C": byte order
// doesn't change with an upgrade of the operating system's library, whereas an index corrupted by that would let duplicates pass.
// claimed_at is the start of the transaction and never changes, so that completing a row touches no index (a HOT update).
func Schema(opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %[1]s (
    consumer     text COLLATE "C" NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND %[2]d),
    event_id     text COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND %[3]d),
    status       text             NOT NULL CHECK (status IN ('PROCESSING', 'COMPLETED')),
    source       text             CHECK (octet_length(source) <= %[4]d),
    claimed_at   timestamptz      NOT NULL DEFAULT now(),
    completed_at timestamptz,
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX IF NOT EXISTS %[5]s ON %[1]s (consumer, claimed_at);
`, opts.table(), maxConsumer, maxEventID, maxSource, opts.index()), nil
}

// index names the index that serves pruning.
func (o Options) index() string {
	const suffix = "_claimed_at_idx"
	table := o.Table
	if cut := maxIdentifier - len(suffix); len(table) > cut {
		for cut > 0 && table[cut]&0xC0 == 0x80 { // not within a character
			cut--
		}
		table = table[:cut]
	}
	return pgx.Identifier{table + suffix}.Sanitize()
}
