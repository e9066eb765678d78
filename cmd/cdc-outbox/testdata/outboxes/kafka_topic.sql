-- topic: orders
-- key: o-1
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE event_outbox (event_id uuid PRIMARY KEY, kafka_topic text NOT NULL, kafka_key text NOT NULL,
	event_name text, event_body jsonb NOT NULL, event_timestamp timestamptz NOT NULL, sent boolean DEFAULT false);
INSERT INTO event_outbox VALUES ('018f4d3c-0000-7000-8000-000000000001', 'orders', 'o-1', 'created', '{}',
'2026-01-02 03:04:05Z');
