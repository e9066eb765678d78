-- topic: order.events
-- key: o-1
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (id uuid NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
	event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz NOT NULL, PRIMARY KEY (id, created_at))
	PARTITION BY RANGE (created_at);
CREATE TABLE outbox_2026 PARTITION OF outbox FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
INSERT INTO outbox VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order', 'o-1', 'created', '{}', NULL,
'2026-01-02 03:04:05Z');
