-- topic: order.events
-- key: o-1
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox_messages (id uuid PRIMARY KEY, aggregate_kind text NOT NULL, aggregate_key text NOT NULL,
	kind text NOT NULL, body bytea NOT NULL, created_at timestamptz NOT NULL, locked_by text, locked_at timestamptz,
	attempts int NOT NULL DEFAULT 0);
INSERT INTO outbox_messages VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order', 'o-1', 'created', '\x7b7d',
'2026-01-02 03:04:05Z');
