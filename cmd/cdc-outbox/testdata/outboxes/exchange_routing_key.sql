-- --key: message_id
-- topic: shop
-- key: 018f4d3c-0000-7000-8000-000000000001
-- type:
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (message_id uuid PRIMARY KEY, exchange text NOT NULL, routing_key text NOT NULL,
	payload text NOT NULL, headers jsonb, created_at timestamptz NOT NULL);
INSERT INTO outbox VALUES ('018f4d3c-0000-7000-8000-000000000001', 'shop', 'order.created', '{}', NULL,
'2026-01-02 03:04:05Z');
