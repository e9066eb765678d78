-- topic: Order.events
-- key: 5
-- type: created
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox_entries (id bigserial PRIMARY KEY, target_type varchar NOT NULL, target_id bigint NOT NULL,
	event_type varchar NOT NULL, actor_id bigint, payload jsonb NOT NULL, created_at timestamp NOT NULL);
INSERT INTO outbox_entries (target_type, target_id, event_type, payload, created_at) VALUES ('Order', 5, 'created',
'{}', '2026-01-02 03:04:05');
