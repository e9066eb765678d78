-- topic: orders
-- key: 42
-- type: created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE "outboxMessages" ("messageId" uuid PRIMARY KEY, "topicName" text NOT NULL, "eventKey" bigint NOT NULL,
	"messageName" text NOT NULL, "messageBody" jsonb NOT NULL, "insertedAt" timestamptz NOT NULL, "lockedUntil" timestamptz);
INSERT INTO "outboxMessages" VALUES ('018f4d3c-0000-7000-8000-000000000001', 'orders', 42, 'created', '{}',
'2026-01-02 03:04:05Z');
