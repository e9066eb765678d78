-- topic: orders
-- key: o-1
-- type:
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
create table "outbox_messages" ("id" serial primary key, "channel" varchar(255) not null,
	"message_key" varchar(255) null, "message" text not null, "processed" boolean default '0',
	"created_at" timestamptz not null default CURRENT_TIMESTAMP, "updated_at" timestamptz not null default
	CURRENT_TIMESTAMP);
insert into outbox_messages (channel, message_key, message, created_at) values ('orders', 'o-1', '{}',
'2026-01-02 03:04:05Z');
