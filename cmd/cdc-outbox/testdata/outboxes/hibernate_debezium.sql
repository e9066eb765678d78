-- topic: Order.events
-- key: 1
-- type: OrderCreated
-- id: 018f4d3c-0000-7000-8000-000000000001
-- timestamp: 2026-01-02T03:04:05Z
create table OutboxEvent (id uuid not null, aggregatetype varchar(255) not null,
	aggregateid varchar(255) not null, type varchar(255) not null, timestamp timestamp(6) not null,
	payload varchar(8000), tracingspancontext varchar(256), primary key (id));
insert into OutboxEvent values ('018f4d3c-0000-7000-8000-000000000001', 'Order', '1', 'OrderCreated',
'2026-01-02 03:04:05', '{}');
