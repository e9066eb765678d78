-- topic: order.events
-- key: o-1
-- type: order.created
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE IF NOT EXISTS "outbox" ("id" serial PRIMARY KEY NOT NULL, "aggregateType" varchar(64) NOT NULL,
	"aggregateId" varchar(64) NOT NULL, "eventName" text NOT NULL, "eventData" text NOT NULL,
	"OccuredOn" timestamp with time zone DEFAULT now() NOT NULL, "processedAt" timestamp with time zone);
INSERT INTO outbox ("aggregateType", "aggregateId", "eventName", "eventData", "OccuredOn") VALUES ('order', 'o-1',
'order.created', '{}', '2026-01-02 03:04:05Z');
