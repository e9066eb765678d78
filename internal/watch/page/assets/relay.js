// The connector: its charts, and what it says of itself.

import { showBadRows } from './badrows.js';
import { Chart } from './charts.js';
import { byId, show, terms, text } from './dom.js';
import { bytes, count, percent, rate, seconds, time } from './format.js';
import { SlotCard, reader } from './slots.js';
import { showTopics } from './topics.js';

export class Relay {
  constructor(polling) {
    this.polling = polling;
    const charts = byId('charts');
    this.rate = new Chart(charts, {
      id: 'chart-rate', title: 'Events that Kafka acknowledged', top: 5, clips: true, axis: rate,
      lines: [{ name: 'rate', label: 'events per second', color: 'one', format: (v) => rate(v) + '/s' }],
    });
    this.latency = new Chart(charts, {
      id: 'chart-latency', title: polling ? 'From a row’s timestamp to acknowledgement' : 'From commit to acknowledgement', top: 0.002, clips: true, axis: seconds,
      lines: [
        { name: 'p99', label: 'p99', color: 'two', format: seconds },
        { name: 'p50', label: 'p50', color: 'one', format: seconds },
      ],
    });
    if (!polling) this.wal = new SlotCard(charts, { alone: true });
    this.window = new Chart(charts, {
      id: 'chart-window', title: 'In flight between Postgres and Kafka', top: 0.01, axis: percent1,
      marks: () => [{ at: 1, color: 'limit' }],
      lines: [
        { name: 'records', label: 'records', color: 'one', format: percent1 },
        { name: 'bytes', label: 'bytes', color: 'two', format: percent1 },
      ],
    });
    this.oldest = new Chart(charts, {
      id: 'chart-oldest', title: polling ? 'Age of the oldest row that is not published' : 'Age of the oldest unconfirmed transaction', top: 1, axis: seconds,
      lines: [{ name: 'oldest', label: 'age', color: 'one', format: seconds }],
    });
  }

  update({ status, history }, source, fine) {
    // Where all is well, tiles say as much; in trouble the slot comes first.
    byId('charts').classList.toggle('trouble', !fine);
    show(this.window.figure, !fine);
    show(this.oldest.figure, !fine);
    const now = history.now / 1000;
    const { relay, view } = source;
    const of = (...names) => ({ columns: [view.relay.columns[0], ...names.map((n) => view.relay.columns[1 + relay.names.indexOf(n)])], last: (n, w) => relay.last(n, w), end: view.relay.end });
    const latest = relay.last('rate', 5);
    text(this.rate.value, latest === null ? '–' : rate(latest));
    text(this.rate.unit, 'per second');
    text(this.rate.note, `${count(status.counts.published)} since the process started.`);
    this.rate.draw(of('rate'), now);

    const p99 = relay.last('p99', 10);
    const before = relay.last('p99');
    text(this.latency.value, p99 === null ? '–' : seconds(p99));
    text(this.latency.unit, p99 !== null ? 'at the 99th percentile'
      : before === null ? 'nothing was acknowledged yet' : `nothing was acknowledged in the last 10 s; before, ${seconds(before)}`);
    text(this.latency.note, this.polling ? 'Of the rows that were acknowledged in each second.' : 'Of the transactions whose last event was acknowledged in each second.');
    this.latency.draw(of('p99', 'p50'), now);

    if (!this.polling) this.slot(status, source, history);

    const w = status.window;
    text(this.window.value, count(w.records));
    text(this.window.unit, `of ${count(w.max_records)} records, ${bytes(w.bytes)} of ${bytes(w.max_bytes)}`);
    text(this.window.note, w.full ? 'Reading from Postgres pauses until Kafka acknowledges.' : 'In per cent of the window. Where Kafka is slower than Postgres, reading pauses.');
    this.window.note.classList.toggle('strong', w.full);
    this.window.draw(shares(view.relay, w), now);

    this.age(status, relay);
    this.oldest.draw(of('oldest'), now);

    this.lists(status, now);
  }

  age(status, relay) {
    const oldest = !this.polling ? status.oldest_unconfirmed_seconds : status.backlog?.rows ? relay.last('oldest') ?? 0 : 0;
    text(this.oldest.value, oldest === 0 ? 'none' : seconds(oldest));
    if (!this.polling) {
      text(this.oldest.unit, oldest === 0 ? 'all that was read is confirmed' : '');
      text(this.oldest.note, 'Since its commit in Postgres. While it grows, the slot does not move.');
      return;
    }
    const rows = status.backlog?.rows;
    text(this.oldest.unit, rows === undefined ? 'not counted yet' : rows === 0 ? 'all rows are published' : `${count(rows)}${rows >= 100000 ? ' or more' : ''} rows are not published`);
    text(this.oldest.note, 'By its timestamp column, as of the last count in the table.');
  }

  slot(status, source, history) {
    const slot = status.replication_slot;
    if (slot) return this.wal.update(slot, source.view.slots.get(slot.name), history);
    const why = status.waits_for.find((w) => ['postgres_unreachable', 'slot_missing', 'slot_lost'].includes(w.kind));
    this.wal.unknown(why ? why.reason : 'The server has not been asked about the slot yet.');
  }

  lists(status, now) {
    const slot = status.replication_slot;
    const c = status.counts;
    text(byId('facts-title'), this.polling ? 'Tables and workers' : 'Slot and stream');
    terms(byId('facts'), this.polling ? tables(status) : [
      ['State', `${status.state.name}, since ${time(status.state.since)}`],
      ['Ready', status.ready ? 'yes' : `no: ${status.ready_reason}`],
      ['Snapshot', status.snapshot && `${count(status.snapshot.done)} of ${count(status.snapshot.total)} rows from before the slot`],
      ['Slot', { code: status.slot }],
      ['Publication', { code: status.publication }],
      ['Database', [status.server.database, status.server.version && `PostgreSQL ${status.server.version}`, status.server.timeline && `timeline ${status.server.timeline}`].filter(Boolean).join(', ')],
      ['Reader', slot && reader(slot)],
      ['WAL status', slot?.wal_status],
      ['Received', status.received_lsn && { code: status.received_lsn }],
      ['Confirmed', status.confirmed_lsn && { code: status.confirmed_lsn }],
      ['restart_lsn', slot?.restart_lsn && { code: slot.restart_lsn }],
      ['Heard from Postgres', status.heard_seconds_ago !== null && `${seconds(status.heard_seconds_ago)} ago`],
      ['Bad rows', (c.dead_lettered > 0 || c.skipped > 0) && `${count(c.dead_lettered)} dead-lettered, ${count(c.skipped)} skipped`],
      ['Passed over', (c.repeated > 0 || c.covered > 0) && `${count(c.repeated + c.covered)} that Kafka had already`],
      ...promised(status),
    ]);
    showTopics(status.topics ?? [], now);
    showBadRows(status, now);
    show(byId('lists'), true);
  }
}

// tables is what a relay that polls says of itself.
const tables = (status) => [
  ['State', `${status.state.name}, since ${time(status.state.since)}`],
  ['Ready', status.ready ? 'yes' : `no: ${status.ready_reason}`],
  ['Tables', { code: status.tables.join(', ') }],
  ['Workers', count(status.workers)],
  ['Notified', status.listening ? 'yes' : 'no, it asks at polling.interval'],
  ['Heard from Postgres', status.heard_seconds_ago !== null && `${seconds(status.heard_seconds_ago)} ago`],
  ...promised(status),
];

// promised is what the configuration keeps with its broker.
const promised = (status) => (status.promises ?? []).map((p) => [`Promised: ${p.of}`, p.text]);

// percent1 keeps digits where a per cent is much.
const percent1 = (share) => (share === 0 || share >= 0.1 ? percent(share) : `${Number((share * 100).toPrecision(2))} %`);

// shares are records and bytes in flight as parts of the window.
function shares(relay, w) {
  const part = (name, of) => relay.columns[1 + relay.names.indexOf(name)].map((v) => (v === null ? null : v / of));
  const last = { records: w.records / w.max_records, bytes: w.bytes / w.max_bytes };
  return { columns: [relay.columns[0], part('records', w.max_records), part('bytes', w.max_bytes)], last: (name) => last[name], end: relay.end };
}
