-- topic: orders
-- key: o-1
-- type: MT_EVENT
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
-- headers: tenant=a
CREATE TABLE outbox (Id bigserial PRIMARY KEY, MessageId character varying(255) UNIQUE NOT NULL,
	Topic character varying(255) NULL, MessageType character varying(32) NULL, Timestamp timestamptz NULL,
	CorrelationId character varying(255) NULL, ReplyTo character varying(255) NULL,
	ContentType character varying(128) NULL, PartitionKey character varying(128) NULL, Dispatched timestamptz NULL,
	HeaderBag text NULL, Body text NULL);
INSERT INTO outbox (MessageId, Topic, MessageType, Timestamp, PartitionKey, HeaderBag, Body) VALUES ('m-1', 'orders',
'MT_EVENT', '2026-01-02 03:04:05Z', 'o-1', '{"tenant": "a"}', '{}');
