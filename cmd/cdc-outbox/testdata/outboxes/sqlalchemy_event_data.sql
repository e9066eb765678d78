-- topic: outbox_event.events
-- key: o-1
-- type: order.created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
-- headers: a=1
CREATE TABLE outbox_event (
	event_id UUID NOT NULL, event_name VARCHAR(100) NOT NULL, subject VARCHAR(100) NOT NULL, event_data JSONB NOT NULL,
	event_metadata JSONB, event_time TIMESTAMP WITHOUT TIME ZONE NOT NULL, PRIMARY KEY (event_id));
INSERT INTO outbox_event VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order.created', 'o-1', '{}', '{"a": 1}',
'2026-01-02 03:04:05');
