// A billing service: one line for each event, however often the event is delivered.
//
// The claim of the event and the line are one transaction. docs/ledger.md has the statements and the rules.
//
//   npm install pg kafkajs tsx
//   DATABASE_URL=postgres://... KAFKA_BROKERS=kafka:9092 npx tsx billing.mts

import { setTimeout as sleep } from "node:timers/promises";
import { Kafka, type EachMessagePayload } from "kafkajs";
import pg from "pg";

const consumerName = "billing";
const group = "billing";
const topic = "order.events";

const claim = `
INSERT INTO processed_events (consumer, event_id, status, source, completed_at)
SELECT $1, $2, 'COMPLETED', $3, now() FROM (SELECT CASE current_setting('synchronous_commit')
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END OFFSET 0) AS durable
ON CONFLICT (consumer, event_id) DO NOTHING`;

const status = "SELECT status FROM processed_events WHERE consumer = $1 AND event_id = $2";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
pool.on("error", (e) => console.error(e.message)); // of a connection that no query uses

async function bill(db: pg.PoolClient, id: string, change: { order: number; cents: number }) {
  await db.query("INSERT INTO billing_lines (event_id, order_id, cents) VALUES ($1, $2, $3)", [
    id,
    change.order,
    change.cents,
  ]);
}

// handle handles the event if it was not handled before. An exception means that nothing was written.
async function handle({ partition, message }: EachMessagePayload) {
  const id = String(message.headers?.id);
  const source = `${topic}/${partition}@${message.offset}`;
  const db = await pool.connect();
  let broken: Error | undefined;
  try {
    await db.query("BEGIN");
    if ((await db.query(claim, [consumerName, id, source])).rowCount === 1) {
      await bill(db, id, JSON.parse(String(message.value)));
      await db.query("COMMIT");
      return;
    }
    const { rows } = await db.query(status, [consumerName, id]);
    await db.query("ROLLBACK");
    if (rows[0]?.status !== "COMPLETED") {
      throw new Error(`event ${id} was begun before, and it is not known whether it had its effect`);
    }
  } catch (e) {
    await db.query("ROLLBACK").catch((lost: Error) => (broken = lost));
    throw e;
  } finally {
    db.release(broken); // a broken connection does not return to the pool
  }
}

let stopping = false;
const consumer = new Kafka({
  clientId: group,
  brokers: process.env.KAFKA_BROKERS!.split(","),
}).consumer({ groupId: group });

// handleUntilDone tries again until it succeeds. A record that can never succeed belongs into a dead-letter topic of
// yours.
async function handleUntilDone(payload: EachMessagePayload) {
  for (let pause = 100; ; pause = Math.min(2 * pause, 10_000)) {
    try {
      return await handle(payload);
    } catch (e) {
      console.error(`not handled: ${topic}/${payload.partition}@${payload.message.offset}:`, e);
      if (stopping) throw e; // the offset stays where it is
      await sleep(pause);
      await payload.heartbeat();
    }
  }
}

process.once("SIGTERM", async () => {
  stopping = true;
  await consumer.disconnect(); // commits what was handled
  await pool.end();
  process.exit(0);
});

await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
await consumer.run({ eachMessage: handleUntilDone });
