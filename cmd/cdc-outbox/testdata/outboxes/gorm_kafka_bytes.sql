-- --key: id
-- topic: orders
-- key: 1
-- type:
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE "outbox_records" ("id" bigserial, "created_at" timestamptz, "updated_at" timestamptz,
	"deleted_at" timestamptz, "topic" text NOT NULL, "key" bytea, "value" bytea, "headers" jsonb, "state" smallint,
	PRIMARY KEY ("id"));
INSERT INTO "outbox_records" ("created_at", "topic", "key", "value") VALUES ('2026-01-02 03:04:05Z', 'orders',
'\x6f2d31', '\x7b7d');
