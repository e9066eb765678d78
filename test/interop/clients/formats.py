"""Prints what SDKs make of each record of a topic, as lines of JSON: python formats.py brokers topic records kind."""

import json
import sys

from cloudevents.kafka import KafkaMessage, from_binary, from_structured
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.wrappers_pb2 import DoubleValue

brokers, topic, records, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "name", "type": "string"}]})
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})


def cloud_event(read):
    def decode(m):
        headers = {name: value for name, value in m.headers()}
        event = read(KafkaMessage(headers=headers, key=m.key(), value=m.value()))
        return {**event.get_attributes(), "data": event.get_data()}
    return decode


def registered(schema_type, schema, make, show):
    """A registry in this process, in which the schema gets the id 1."""
    registry = SchemaRegistryClient.new_client({"url": "mock://interop"})
    assert registry.register_schema(topic + "-value", Schema(schema, schema_type)) == 1
    deserialize = make(registry)
    return lambda m: show(deserialize(m.value(), SerializationContext(topic, MessageField.VALUE)))


decode = {
    "cloudevents_binary": lambda: cloud_event(from_binary),
    "cloudevents_structured": lambda: cloud_event(from_structured),
    "avro": lambda: registered("AVRO", AVRO, lambda r: AvroDeserializer(r), lambda v: v),
    "json": lambda: registered("JSON", JSON, lambda r: JSONDeserializer(JSON, schema_registry_client=r), lambda v: v),
    "protobuf": lambda: lambda m, d=ProtobufDeserializer(DoubleValue, {"use.deprecated.format": False}): {
        "value": d(m.value(), SerializationContext(topic, MessageField.VALUE)).value
    },
}[kind]()

consumer = Consumer({
    "bootstrap.servers": brokers, "group.id": "formats-" + topic, "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
})
consumer.subscribe([topic])
while records > 0:
    m = consumer.poll(30)
    if m is None:
        sys.exit(f"nothing in 30 s; {records} records are left")
    if m.error():
        sys.exit(str(m.error()))
    records -= 1
    print(json.dumps(decode(m), default=str))
consumer.close()
