package outbox

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Schema returns the SQL that creates the outbox table and its index if they don't exist. Run it with the migrations of
// the application, before the connector's publication is created for the table. The CHECK constraints refuse the
// rows that the connector couldn't publish, whoever writes them.
func Schema(opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %[1]s (
    id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregate_type text        NOT NULL CHECK (aggregate_type ~ '^[a-zA-Z0-9._-]{1,%[2]d}$' AND aggregate_type !~ '^(__.*|\.\.?)$'),
    aggregate_id   text        NOT NULL CHECK (aggregate_id <> ''),
    event_type     text        NOT NULL CHECK (event_type <> ''),
    payload        %[3]s,
    headers        jsonb       CHECK (jsonb_typeof(headers) = 'object' AND headers - ARRAY['id', 'type', 'position', ''] = headers),
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS %[4]s ON %[1]s (created_at);
`, opts.table(), maxAggregateType, opts.Payload, opts.index()), nil
}

// index names the index that serves pruning, as Postgres would name it.
func (o Options) index() string {
	const suffix = "_created_at_idx"
	table := o.Table
	if len(table) > maxIdentifier-len(suffix) {
		cut := maxIdentifier - len(suffix)
		for cut > 0 && table[cut]&0xC0 == 0x80 { // not within a character
			cut--
		}
		table = table[:cut]
	}
	return pgx.Identifier{table + suffix}.Sanitize()
}
