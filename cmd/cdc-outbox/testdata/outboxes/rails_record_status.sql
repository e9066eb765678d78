-- topic: Order.events
-- key: 7
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outboxes (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(), record_type character varying NOT NULL, record_id bigint NOT NULL,
	event character varying NOT NULL, data json NOT NULL, status integer NOT NULL DEFAULT 0,
	retry_count integer NOT NULL DEFAULT 0, last_error text, created_at timestamp(6) NOT NULL,
	updated_at timestamp(6) NOT NULL);
INSERT INTO outboxes (id, record_type, record_id, event, data, created_at, updated_at) VALUES
('018f4d3c-0000-7000-8000-000000000001', 'Order', 7, 'created', '{}', '2026-01-02 03:04:05', now());
