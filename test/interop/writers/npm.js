// Writes with pg-transactional-outbox, in two steps: node npm.js DSN create, node npm.js DSN write.
"use strict";

const { randomUUID } = require("node:crypto");
const pg = require("pg");
const { DatabaseSetup, getDisabledLogger, initializeMessageStorage } = require("pg-transactional-outbox");

async function main(dsn, what) {
  const client = new pg.Client({ connectionString: dsn });
  await client.connect();
  if (what === "create") {
    const sql = DatabaseSetup.dropAndCreateTable({ outboxOrInbox: "outbox", schema: "public", table: "outbox" });
    await client.query(sql);
  } else {
    const settings = { dbSchema: "public", dbTable: "outbox" };
    const store = initializeMessageStorage({ settings, outboxOrInbox: "outbox" }, getDisabledLogger());
    await client.query("BEGIN");
    await store(
      {
        id: randomUUID(),
        aggregateType: "movie",
        aggregateId: "m-9",
        messageType: "movie_created",
        payload: { title: "x" },
        metadata: { tenant: "acme" },
      },
      client,
    );
    await client.query("COMMIT");
  }
  await client.end();
}

main(...process.argv.slice(2)).catch((e) => {
  console.error(e);
  process.exit(1);
});
