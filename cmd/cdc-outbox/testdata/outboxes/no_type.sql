-- topic: order.events
-- key: o-1
-- type:
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, aggregate_type text NOT NULL,
	aggregate_id text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL);
INSERT INTO outbox (aggregate_type, aggregate_id, payload, created_at) VALUES ('order', 'o-1', '{}',
'2026-01-02 03:04:05Z');
