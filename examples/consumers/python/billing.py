"""A billing service: one line for each event, however often the event is delivered.

The claim of the event and the line are one transaction. docs/ledger.md has the statements and the rules.

    pip install psycopg[binary] confluent-kafka
    DATABASE_URL=postgres://... KAFKA_BROKERS=kafka:9092 python billing.py
"""

import json
import logging
import os
import signal
import time

import psycopg
from confluent_kafka import Consumer

CONSUMER, GROUP, TOPIC = "billing", "billing", "order.events"

CLAIM = """
INSERT INTO processed_events (consumer, event_id, status, source, completed_at)
SELECT %s, %s, 'COMPLETED', %s, now() FROM (SELECT CASE current_setting('synchronous_commit')
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END OFFSET 0) AS durable
ON CONFLICT (consumer, event_id) DO NOTHING"""

STATUS = "SELECT status FROM processed_events WHERE consumer = %s AND event_id = %s"


def bill(db, event_id, change):
    db.execute(
        "INSERT INTO billing_lines (event_id, order_id, cents) VALUES (%s, %s, %s)",
        (event_id, change["order"], change["cents"]),
    )


def handle(db, record):
    """Handles the event if it was not handled before. An exception means that nothing was written."""
    event_id = next(value for name, value in record.headers() if name == "id").decode()
    source = f"{record.topic()}/{record.partition()}@{record.offset()}"
    with db.transaction():
        if db.execute(CLAIM, (CONSUMER, event_id, source)).rowcount == 1:
            bill(db, event_id, json.loads(record.value()))
            return
        row = db.execute(STATUS, (CONSUMER, event_id)).fetchone()
    if row is None or row[0] != "COMPLETED":
        raise RuntimeError(f"event {event_id} was begun before, and it is not known whether it had its effect")


def connect():
    return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)  # transaction() begins and commits


def handle_until_done(db, record, running):
    """Tries again until it succeeds. A record that can never succeed belongs into a dead-letter topic of yours."""
    pause = 0.1
    while running():
        try:
            handle(db, record)
            return db, True
        except Exception:
            logging.exception("not handled: %s/%d@%d", record.topic(), record.partition(), record.offset())
            time.sleep(pause)
            pause = min(2 * pause, 10)
        if db.closed:
            try:
                db = connect()
            except psycopg.OperationalError:
                logging.exception("the database does not answer")
    return db, False


def main():
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    consumer = Consumer({
        "bootstrap.servers": os.environ["KAFKA_BROKERS"],
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.offset.store": False,  # only what was handled
    })
    consumer.subscribe([TOPIC])
    db = connect()
    while not stopping:
        record = consumer.poll(1.0)
        if record is None:
            continue
        if record.error():
            logging.warning("%s", record.error())
            continue
        db, done = handle_until_done(db, record, lambda: not stopping)
        if done:
            consumer.store_offsets(record)  # committed in the background, and by close
    consumer.close()


if __name__ == "__main__":
    main()
