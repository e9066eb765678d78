// Prints each record of a topic as the SDK of CloudEvents reads it, as lines of JSON: node cloudevents.js brokers
// topic records.
"use strict";

const { Kafka, logLevel } = require("kafkajs");
const { Kafka: binding } = require("cloudevents");

const [, , brokers, topic, records] = process.argv;
let left = Number(records);

const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: "cloudevents-" + topic });

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      const headers = Object.fromEntries(Object.entries(message.headers).map(([name, value]) => [name, String(value)]));
      const value = String(message.value);
      const event = binding.toEvent({ key: String(message.key), value, body: value, headers });
      event.validate();
      console.log(JSON.stringify(event));
      if (--left === 0) setImmediate(() => consumer.disconnect().then(() => process.exit(0)));
    },
  });
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
