-- topic: Order.events
-- key: tenant-1
-- type: created
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (id bigserial PRIMARY KEY, subject_type varchar NOT NULL, subject_id bigint NOT NULL,
	partition_key varchar NOT NULL, event_type varchar NOT NULL, payload jsonb NOT NULL, occurred_at timestamptz NOT NULL);
INSERT INTO outbox (subject_type, subject_id, partition_key, event_type, payload, occurred_at) VALUES ('Order', 3,
'tenant-1', 'created', '{}', '2026-01-02 03:04:05Z');
