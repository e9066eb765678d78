-- topic: order.events
-- key: 018f4d3c-0000-7000-8000-000000000009
-- type: order.created
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (
	outbox_id BIGSERIAL NOT NULL, aggregate_type VARCHAR NOT NULL, aggregate_id UUID NOT NULL,
	event_type VARCHAR NOT NULL, payload_json JSON NOT NULL, occurred_on TIMESTAMP WITH TIME ZONE NOT NULL,
	processed_at TIMESTAMP WITH TIME ZONE, PRIMARY KEY (outbox_id));
INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload_json, occurred_on) VALUES
('order', '018f4d3c-0000-7000-8000-000000000009', 'order.created', '{}', '2026-01-02 03:04:05Z');
