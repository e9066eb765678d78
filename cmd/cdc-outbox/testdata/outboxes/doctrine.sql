-- topic: order.events
-- key: o-1
-- type: OrderCreated
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox_message (id UUID NOT NULL, aggregate_name VARCHAR(255) NOT NULL,
	aggregate_root_id VARCHAR(36) NOT NULL, name VARCHAR(255) NOT NULL, payload JSON NOT NULL,
	occurred_at TIMESTAMP(0) WITHOUT TIME ZONE NOT NULL, published_at TIMESTAMP(0) WITHOUT TIME ZONE DEFAULT NULL,
	PRIMARY KEY(id));
INSERT INTO outbox_message VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order', 'o-1', 'OrderCreated', '{}',
'2026-01-02 03:04:05');
