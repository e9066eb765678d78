-- topic: order.events
-- key: o-1
-- type: order.placed
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE "outbox_events" (
	"uuid" uuid NOT NULL PRIMARY KEY, "aggregate" character varying NOT NULL, "subject" character varying NOT NULL,
	"eventName" character varying NOT NULL, "event_data" json NOT NULL, "occurredOn" TIMESTAMP WITH TIME ZONE NOT NULL);
INSERT INTO "outbox_events" VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order', 'o-1', 'order.placed', '{}',
'2026-01-02 03:04:05Z');
