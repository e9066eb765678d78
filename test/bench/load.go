package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The load is the same for every contender: aggregateIDs keys over three aggregate types, about 330 bytes of JSON each.
const aggregateIDs = 10_000

var aggregateTypes = []string{"customer", "order", "shipment"}

const schema = `
CREATE TABLE outbox (
	id             uuid        PRIMARY KEY,
	aggregate_type text        NOT NULL,
	aggregate_id   text        NOT NULL,
	event_type     text        NOT NULL,
	payload        jsonb,
	headers        jsonb,
	created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE PUBLICATION bench FOR TABLE outbox WITH (publish = 'insert');
CREATE FUNCTION event_id(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$ SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;`

const publication = "bench"

// insertRows inserts rows first..last; the number of a row is the end of its id. A key belongs to one type for good.
const insertRows = `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload)
	SELECT event_id(n), (ARRAY['customer','order','shipment'])[1 + n %% %[1]d %% 3], 'id-' || n %% %[1]d, 'Changed',
		jsonb_build_object('n', n, 'amount', n / 100.0, 'currency', 'EUR', 'note', repeat(md5(n::text), 8))
	FROM generate_series(%[2]s, %[3]s) AS n`

// workload is what lies in the log for the contenders.
type workload struct{ rows, perTx int }

// run writes the rows inside the server: the WAL is what counts here, not how it came.
func (l *workload) run(ctx context.Context, conn *pgx.Conn) (time.Duration, error) {
	start := time.Now()
	insert := fmt.Sprintf(insertRows, aggregateIDs, "i", fmt.Sprintf("least(i + %d, %d)", l.perTx-1, l.rows))
	do := fmt.Sprintf(`DO $load$ DECLARE i int := 1; BEGIN
		WHILE i <= %d LOOP
			%s;
			COMMIT;
			i := i + %d;
		END LOOP;
	END $load$`, l.rows, insert, l.perTx)
	// Two calls: statements sent together are one transaction, within which DO may not commit.
	for _, sql := range []string{"SET synchronous_commit = off", do} {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return 0, fmt.Errorf("load: %w", err)
		}
	}
	return time.Since(start), nil
}
