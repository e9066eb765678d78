-- topic: order.events
-- key: o-1
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE "Event Outbox" ("Event ID" uuid PRIMARY KEY, "Aggregate Type" text NOT NULL,
	"Aggregate ID" text NOT NULL, "Event Type" text NOT NULL, "Event Payload" jsonb, "Occurred At" timestamptz NOT NULL);
INSERT INTO "Event Outbox" VALUES ('018f4d3c-0000-7000-8000-000000000001', 'order', 'o-1', 'created', '{}',
'2026-01-02 03:04:05Z');
