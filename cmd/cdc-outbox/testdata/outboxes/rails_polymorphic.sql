-- topic: Billing.Invoice.events
-- key: 42
-- type: invoice.paid
-- id: 1
-- timestamp: 2026-01-02T03:04:05.678Z
CREATE TABLE outbox_events (
	id bigserial PRIMARY KEY, messageable_type character varying NOT NULL, messageable_id bigint NOT NULL,
	event_name character varying NOT NULL, payload jsonb NOT NULL DEFAULT '{}', processed_at timestamp(6),
	created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL);
CREATE INDEX ON outbox_events (messageable_type, messageable_id);
INSERT INTO outbox_events (messageable_type, messageable_id, event_name, payload, created_at, updated_at)
VALUES ('Billing::Invoice', 42, 'invoice.paid', '{}', '2026-01-02 03:04:05.678', now());
