-- topic: orders
-- key: o-1
-- type: order.created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
-- headers: tenant=a
CREATE TABLE outbox_messages (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, topic character varying,
	key character varying, name character varying, data jsonb, metadata jsonb, created_at timestamptz NOT NULL);
INSERT INTO outbox_messages VALUES ('018f4d3c-0000-7000-8000-000000000001', 'orders', 'o-1', 'order.created', '{}',
'{"tenant": "a"}', '2026-01-02 03:04:05Z');
