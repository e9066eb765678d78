-- topic: orders_outbox.events
-- key: 12
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE orders_outbox (
	id uuid PRIMARY KEY, content_type_id integer NOT NULL, object_id integer NOT NULL CHECK (object_id >= 0),
	action varchar(32) NOT NULL, payload_json jsonb NOT NULL, created timestamp with time zone NOT NULL,
	sent_at timestamp with time zone);
INSERT INTO orders_outbox VALUES
('018f4d3c-0000-7000-8000-000000000001', 9, 12, 'created', '{}', '2026-01-02 03:04:05Z');
