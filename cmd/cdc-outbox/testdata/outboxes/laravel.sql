-- topic: App.Models.Order.events
-- key: 42
-- type: order.created
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
create table "outbox_messages" ("id" bigserial not null primary key,
	"eventable_type" varchar(255) not null, "eventable_id" bigint not null, "event" varchar(255) not null,
	"payload" json not null, "available_at" timestamp(0) without time zone null,
	"created_at" timestamp(0) without time zone null, "updated_at" timestamp(0) without time zone null);
insert into outbox_messages (eventable_type, eventable_id, event, payload, created_at) values
('App\Models\Order', 42, 'order.created', '{}', '2026-01-02 03:04:05');
