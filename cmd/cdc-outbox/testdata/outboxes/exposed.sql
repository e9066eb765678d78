-- topic: order.events
-- key: o-1
-- type: created
-- id: 1
-- timestamp: 2026-01-02T03:04:05.123Z
CREATE TABLE IF NOT EXISTS transactional_outbox (id BIGSERIAL PRIMARY KEY, entity_type VARCHAR(50) NOT NULL,
	entity_uuid VARCHAR(64) NOT NULL, event VARCHAR(50) NOT NULL, payload TEXT NOT NULL, tenant VARCHAR(50),
	creation_date TIMESTAMP NOT NULL, published BOOLEAN DEFAULT FALSE NOT NULL);
INSERT INTO transactional_outbox (entity_type, entity_uuid, event, payload, creation_date) VALUES ('order', 'o-1',
'created', '{}', '2026-01-02 03:04:05.123');
