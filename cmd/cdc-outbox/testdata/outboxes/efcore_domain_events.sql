-- --key: Content/Order/Id
-- topic: OutboxMessages.events
-- key: 5
-- type: Shop.OrderCreated
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE "OutboxMessages" (
	"Id" uuid NOT NULL, "Type" text NOT NULL, "Content" text NOT NULL,
	"OccurredOnUtc" timestamp with time zone NOT NULL, "ProcessedOnUtc" timestamp with time zone, "Error" text,
	CONSTRAINT "PK_OutboxMessages" PRIMARY KEY ("Id"));
INSERT INTO "OutboxMessages" VALUES ('018f4d3c-0000-7000-8000-000000000001', 'Shop.OrderCreated', '{"Order": {"Id": 5}}',
'2026-01-02 03:04:05Z');
