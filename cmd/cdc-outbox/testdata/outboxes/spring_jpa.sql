-- topic: Order.events
-- key: 1
-- type: OrderCreated
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
create table outbox (id uuid not null, aggregate_id varchar(255), aggregate_type varchar(255),
	created_on timestamp(6), payload text, processed boolean not null default false, status varchar(255)
	check (status in ('NEW','SENT')), type varchar(255), version integer, primary key (id));
insert into outbox (id, aggregate_id, aggregate_type, created_on, payload, status, type) values
('018f4d3c-0000-7000-8000-000000000001', '1', 'Order', '2026-01-02 03:04:05', '{}', 'NEW', 'OrderCreated');
