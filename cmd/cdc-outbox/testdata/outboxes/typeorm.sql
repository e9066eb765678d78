-- topic: orders.v1
-- key: o-1
-- type: OrderCreated
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
-- headers: tenant=a
CREATE TABLE "outbox_entity" (
	"id" uuid NOT NULL DEFAULT gen_random_uuid(), "destination" character varying NOT NULL,
	"partitionKey" character varying, "messageType" character varying NOT NULL, "body" text NOT NULL,
	"headers" jsonb, "createdAt" TIMESTAMP NOT NULL DEFAULT now(), "isSent" boolean NOT NULL DEFAULT false,
	CONSTRAINT "PK_1" PRIMARY KEY ("id"));
INSERT INTO "outbox_entity" ("id", "destination", "partitionKey", "messageType", "body", "headers", "createdAt") VALUES
('018f4d3c-0000-7000-8000-000000000001', 'orders.v1', 'o-1', 'OrderCreated', '{}', '{"tenant": "a"}',
'2026-01-02 03:04:05');
