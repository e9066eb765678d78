-- topic: Order.events
-- key: ckey1
-- type: OrderCreated
-- id: cm5abc
-- timestamp: 2026-01-02T03:04:05.678Z
CREATE TYPE "OutboxStatus" AS ENUM ('PENDING', 'SENT');
CREATE TABLE "OutboxEvent" (
	"id" TEXT NOT NULL, "aggregateType" TEXT NOT NULL, "aggregateId" TEXT NOT NULL, "eventType" TEXT NOT NULL,
	"payload" JSONB NOT NULL, "status" "OutboxStatus" NOT NULL DEFAULT 'PENDING',
	"createdAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP, "processedAt" TIMESTAMP(3),
	CONSTRAINT "OutboxEvent_pkey" PRIMARY KEY ("id"));
INSERT INTO "OutboxEvent" ("id", "aggregateType", "aggregateId", "eventType", "payload", "createdAt") VALUES
('cm5abc', 'Order', 'ckey1', 'OrderCreated', '{}', '2026-01-02 03:04:05.678');
