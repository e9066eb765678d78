-- topic: order.events
-- key: o-1
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp:
CREATE TABLE domain_event_outbox (id uuid PRIMARY KEY, object_type text, object_id text, event_type text,
	message_payload bytea, created_at bigint NOT NULL);
INSERT INTO domain_event_outbox VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order', 'o-1', 'created', '\x7b7d',
1767323045678);
