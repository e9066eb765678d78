-- topic: Order.events
-- key: 018f4d3c-0000-7000-8000-000000000009
-- type: OrderCreated
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE "OutboxEvents" (
	"EventId" uuid NOT NULL, "AggregateType" character varying(200) NOT NULL, "AggregateId" uuid NOT NULL,
	"EventName" character varying(200) NOT NULL, "PayloadJson" jsonb NOT NULL,
	"OccuredOn" timestamp with time zone NOT NULL, "IsPublished" boolean NOT NULL,
	CONSTRAINT "PK_OutboxEvents" PRIMARY KEY ("EventId"));
INSERT INTO "OutboxEvents" VALUES ('018f4d3c-0000-7000-8000-000000000001', 'Order',
'018f4d3c-0000-7000-8000-000000000009', 'OrderCreated', '{}', '2026-01-02 03:04:05Z', false);
