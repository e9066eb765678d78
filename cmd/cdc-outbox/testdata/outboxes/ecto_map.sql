-- topic: order.events
-- key: 018f4d3c-0000-7000-8000-000000000009
-- type: created
-- id: 1
-- timestamp: 2026-01-02T03:04:05.123Z
CREATE TABLE "outbox" (
	"id" bigserial PRIMARY KEY, "resource" varchar(255) NOT NULL, "resource_id" uuid NOT NULL,
	"event" varchar(255) NOT NULL, "payload" jsonb NOT NULL, "inserted_at" timestamp NOT NULL, "sent_at" timestamp);
INSERT INTO "outbox" ("resource", "resource_id", "event", "payload", "inserted_at") VALUES
('order', '018f4d3c-0000-7000-8000-000000000009', 'created', '{}', '2026-01-02 03:04:05.123');
