-- topic: outbox.events
-- key: o-1
-- type: com.shop.order.created
-- id: A-1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (id text PRIMARY KEY, source text NOT NULL, specversion text NOT NULL DEFAULT '1.0',
	type text NOT NULL, subject text, datacontenttype text, data jsonb, time timestamptz NOT NULL);
INSERT INTO outbox (id, source, type, subject, data, time) VALUES ('A-1', '/shop', 'com.shop.order.created', 'o-1',
'{}', '2026-01-02 03:04:05Z');
