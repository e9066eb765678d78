-- topic: order.events
-- key: tenant-1
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
	partition_key text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL);
INSERT INTO outbox VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order', 'o-1', 'tenant-1', 'created', '{}',
'2026-01-02 03:04:05Z');
