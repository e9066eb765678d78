"""Prints each committed record of a topic as a line of JSON: python dump.py brokers topic."""

import base64
import hashlib
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

BASE64 = lambda b: None if b is None else base64.b64encode(b).decode()

consumer = Consumer({
    "bootstrap.servers": sys.argv[1],
    "group.id": "interop",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.message.max.bytes": 16 << 20,
})
topic = sys.argv[2]
left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in left])
while left:
    m = consumer.poll(30)
    if m is None:
        sys.exit(f"nothing in 30 s; partitions {sorted(left)} are left")
    if m.error():
        if m.error().code() != KafkaError._PARTITION_EOF:
            sys.exit(str(m.error()))
        left.discard(m.partition())
        continue
    value = m.value()
    print(json.dumps({
        "p": m.partition(), "o": m.offset(), "t": m.timestamp()[1], "k": BASE64(m.key()),
        "v": None if value is None else hashlib.sha256(value).hexdigest(),
        "h": [[BASE64(k.encode()), BASE64(v)] for k, v in m.headers() or []],
    }, separators=(",", ":")))
consumer.close()
