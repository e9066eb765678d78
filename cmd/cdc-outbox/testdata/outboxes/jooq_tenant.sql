-- topic: order.events
-- key: o-1
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox_event (event_id uuid PRIMARY KEY, tenant_id uuid NOT NULL, entity_name text NOT NULL,
	entity_key text NOT NULL, operation text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL);
INSERT INTO outbox_event VALUES ('018f4d3c-0000-7000-8000-000000000001', gen_random_uuid(), 'order', 'o-1', 'created',
'{}', '2026-01-02 03:04:05Z');
