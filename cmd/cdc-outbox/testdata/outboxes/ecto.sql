-- topic: orders
-- key: o-1
-- type: order_created
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
-- headers: user=u
CREATE TABLE "outbox_messages" (
	"id" uuid NOT NULL, "stream" varchar(255) NOT NULL, "stream_id" varchar(255) NOT NULL, "type" varchar(255) NOT NULL,
	"data" jsonb NOT NULL DEFAULT '{}', "meta" jsonb, "inserted_at" timestamp(0) NOT NULL, PRIMARY KEY ("id"));
INSERT INTO "outbox_messages" VALUES ('018f4d3c-0000-7000-8000-000000000001', 'orders', 'o-1', 'order_created', '{}',
'{"user": "u"}', '2026-01-02 03:04:05');
