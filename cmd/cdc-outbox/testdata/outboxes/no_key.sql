-- --key: customer
-- topic: outbox.events
-- key: c-1
-- type:
-- id: 1
-- timestamp: 2026-01-02T03:04:05Z
CREATE TABLE outbox (id bigserial PRIMARY KEY, event jsonb NOT NULL, customer text, created_at timestamptz NOT NULL);
INSERT INTO outbox (event, customer, created_at) VALUES ('{}', 'c-1', '2026-01-02 03:04:05Z');
