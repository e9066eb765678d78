package main

import (
	"context"
	"fmt"
	"strings"
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
CREATE TABLE elsewhere (n int NOT NULL, payload text NOT NULL);
CREATE PUBLICATION bench FOR TABLE outbox WITH (publish = 'insert');
CREATE FUNCTION event_id(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$ SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
CREATE FUNCTION note(n int, size int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT left(string_agg(md5(n::text || '-' || i::text), ''), size) FROM generate_series(0, size / 32) AS i $$;`

const publication = "bench"

// insertRows inserts rows first..last; the number of a row is the end of its id. A key belongs to one type for good.
const insertRows = `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload)
	SELECT event_id(n), (ARRAY['customer','order','shipment'])[1 + n %% %[1]d %% 3], 'id-' || n %% %[1]d, 'Changed',
		` + usualPayload + `
	FROM generate_series(%[2]s, %[3]s) AS n`

const (
	usualPayload = "jsonb_build_object('n', n, 'amount', n / 100.0, 'currency', 'EUR', 'note', " + usualNote + ")"
	usualNote    = "repeat(md5(n::text), 8)"
)

// workload is what lies in the log for the contenders.
type workload struct {
	rows      int
	perTx     int
	payload   string // SQL of a payload of another size; empty for the usual one
	elsewhere int    // rows of a payload's size that go to another table with each row
}

// insert is the SQL that writes the rows of one transaction.
func (l *workload) insert() string {
	to := fmt.Sprintf("least(i + %d, %d)", l.perTx-1, l.rows)
	sql := fmt.Sprintf(insertRows, aggregateIDs, "i", to)
	if l.payload != "" {
		sql = strings.Replace(sql, usualPayload, l.payload, 1)
	}
	if l.elsewhere > 0 {
		sql += fmt.Sprintf("; INSERT INTO elsewhere SELECT n, %s FROM generate_series(i, %s) AS n,"+
			" generate_series(1, %d)", usualNote, to, l.elsewhere)
	}
	return sql
}

// run writes the rows inside the server: the WAL is what counts here, not how it came.
func (l *workload) run(ctx context.Context, conn *pgx.Conn) (time.Duration, error) {
	start := time.Now()
	do := fmt.Sprintf(`DO $load$ DECLARE i int := 1; BEGIN
		WHILE i <= %d LOOP
			%s;
			COMMIT;
			i := i + %d;
		END LOOP;
	END $load$`, l.rows, l.insert(), l.perTx)
	// Two calls: statements sent together are one transaction, within which DO may not commit.
	for _, sql := range []string{"SET synchronous_commit = off", do} {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return 0, fmt.Errorf("load: %w", err)
		}
	}
	return time.Since(start), nil
}

// load writes rows in transactions of perTx rows each.
func load(ctx context.Context, conn *pgx.Conn, rows, perTx int) (time.Duration, error) {
	l := workload{rows: rows, perTx: perTx}
	return l.run(ctx, conn)
}
