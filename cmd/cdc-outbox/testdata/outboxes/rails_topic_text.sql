-- topic: orders
-- key: o-1
-- type: OrderCreated
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE kafka_outbox_messages (
	id bigserial PRIMARY KEY, topic character varying NOT NULL, key character varying, event_type character varying,
	payload text NOT NULL, status character varying NOT NULL DEFAULT 'pending', attempts integer DEFAULT 0,
	created_at timestamp(6) NOT NULL, published_at timestamp(6));
INSERT INTO kafka_outbox_messages (topic, key, event_type, payload, created_at) VALUES
('orders', 'o-1', 'OrderCreated', '{}', '2026-01-02 03:04:05');
