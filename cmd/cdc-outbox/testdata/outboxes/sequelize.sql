-- topic: orders
-- key: o-1
-- type:
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE "OutboxMessages" (
	"id" UUID, "topic" VARCHAR(255) NOT NULL, "messageKey" VARCHAR(255), "value" JSONB NOT NULL, "headers" JSONB,
	"publishedAt" TIMESTAMP WITH TIME ZONE, "createdAt" TIMESTAMP WITH TIME ZONE NOT NULL,
	"updatedAt" TIMESTAMP WITH TIME ZONE NOT NULL, PRIMARY KEY ("id"));
INSERT INTO "OutboxMessages" VALUES ('018f4d3c-0000-7000-8000-000000000001', 'orders', 'o-1', '{}', NULL, NULL,
'2026-01-02 03:04:05Z', now());
