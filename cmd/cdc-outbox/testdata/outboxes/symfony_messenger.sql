-- --key: id
-- topic: orders
-- key: 1
-- type:
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
-- headers: a=b
CREATE TABLE messenger_messages (id BIGSERIAL NOT NULL, body TEXT NOT NULL, headers TEXT NOT NULL,
	queue_name VARCHAR(190) NOT NULL, created_at TIMESTAMP(0) WITHOUT TIME ZONE NOT NULL,
	available_at TIMESTAMP(0) WITHOUT TIME ZONE NOT NULL, delivered_at TIMESTAMP(0) WITHOUT TIME ZONE DEFAULT NULL,
	PRIMARY KEY(id));
INSERT INTO messenger_messages (body, headers, queue_name, created_at, available_at) VALUES ('{}', '{"a": "b"}',
'orders', '2026-01-02 03:04:05', now());
