// Prints each committed record of a topic as a line of JSON: node dump.js brokers topic records. A client of this
// library does not learn where a partition ends, so it gets the number of records, and waits for more.

const { createHash } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs');
const snappy = require('snappyjs');
const lz4 = require('lz4js');
const fzstd = require('fzstd');

// Java's framing of snappy: a header of 16 bytes, then blocks, each after its length.
function unframed(b) {
  if (b.subarray(0, 8).toString('latin1') !== '\x82SNAPPY\0') return Buffer.from(snappy.uncompress(b));
  const blocks = [];
  for (let at = 16; at < b.length; at += 4 + b.readUInt32BE(at)) {
    blocks.push(Buffer.from(snappy.uncompress(b.subarray(at + 4, at + 4 + b.readUInt32BE(at)))));
  }
  return Buffer.concat(blocks);
}

const reads = (decompress) => () => ({
  compress: () => { throw new Error('this client only reads'); },
  decompress: async (b) => decompress(b),
});
CompressionCodecs[CompressionTypes.Snappy] = reads(unframed);
CompressionCodecs[CompressionTypes.LZ4] = reads((b) => Buffer.from(lz4.decompress(b)));
CompressionCodecs[CompressionTypes.ZSTD] = reads((b) => Buffer.from(fzstd.decompress(b)));

const base64 = (b) => (b == null ? null : Buffer.from(b).toString('base64'));

async function main([brokers, topic, records]) {
  const kafka = new Kafka({ clientId: 'interop', brokers: brokers.split(','), logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({ groupId: `interop-${topic}-${process.pid}`, readUncommitted: false });
  const lines = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message: m }) => {
      const headers = Object.entries(m.headers ?? {}).map(([k, v]) => [base64(Buffer.from(k)), base64(v)]);
      lines.push(JSON.stringify({
        p: partition, o: Number(m.offset), t: Number(m.timestamp), k: base64(m.key),
        v: m.value == null ? null : createHash('sha256').update(m.value).digest('hex'), h: headers,
      }));
    },
  });
  for (let waited = 0; lines.length < records; waited += 100) {
    if (waited > 60_000) throw new Error(`${lines.length} of ${records} records in a minute`);
    await sleep(100);
  }
  await sleep(1000); // for records that should not be there
  await consumer.disconnect();
  if (lines.length > 0) console.log(lines.join('\n'));
}

main(process.argv.slice(2)).catch((e) => { console.error(e); process.exit(1); });
