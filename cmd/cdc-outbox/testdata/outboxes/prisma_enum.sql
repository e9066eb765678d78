-- topic: ORDER.events
-- key: 17
-- type: CREATED
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TYPE "EntityType" AS ENUM ('ORDER', 'CUSTOMER');
CREATE TYPE "EventName" AS ENUM ('CREATED', 'DELETED');
CREATE TABLE "Outbox" (
	"id" SERIAL NOT NULL, "entityType" "EntityType" NOT NULL, "entityId" INTEGER NOT NULL,
	"eventName" "EventName" NOT NULL, "eventData" JSONB NOT NULL, "occurredAt" TIMESTAMP(3) NOT NULL,
	CONSTRAINT "Outbox_pkey" PRIMARY KEY ("id"));
INSERT INTO "Outbox" ("entityType", "entityId", "eventName", "eventData", "occurredAt") VALUES
('ORDER', 17, 'CREATED', '{}', '2026-01-02 03:04:05');
