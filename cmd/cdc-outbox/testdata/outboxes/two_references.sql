-- --key: order_id
-- topic: outbox.events
-- key: 5
-- type: created
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (id bigserial PRIMARY KEY, customer_type text NOT NULL, customer_id bigint NOT NULL,
	order_id bigint NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL);
INSERT INTO outbox (customer_type, customer_id, order_id, event_type, payload, created_at) VALUES ('retail', 3, 5,
'created', '{}', '2026-01-02 03:04:05Z');
