// The five figures of a connector, each with a line of the last fifteen minutes; and what counts first in trouble: how long it
// has waited, and how much room the slot has.

import { attr, byId, list, make, show, text } from './dom.js';
import { bytes, count, percent, rate, seconds, span, time } from './format.js';
import { Spark } from './spark.js';

const sparks = new WeakMap();

function tile(label) {
  const spark = new Spark();
  const el = make('div', 'tile card', make('dt'), make('dd', 'figure'), make('dd', 'note'));
  text(el.firstElementChild, label);
  el.append(spark.svg);
  sparks.set(el, spark);
  return el;
}

// showTiles writes [{ label, value, note, times, values, tone }].
export function showTiles(tiles, now) {
  show(byId('tiles'), true);
  list(byId('tiles'), tiles, (t) => t.label, (t) => tile(t.label), (el, t) => {
    const [, value, note] = el.children;
    text(value, t.value);
    text(note, t.note);
    attr(el, 'data-tone', t.tone ?? 'none');
    sparks.get(el).draw(t.times, t.values, now, t);
  });
}

// relayTiles are the five of a connector, or of a relay that polls.
export function relayTiles(status, source) {
  const { relay } = source;
  const of = (name) => ({ times: relay.columns[0], values: relay.columns[1 + relay.names.indexOf(name)] });
  const latest = relay.last('rate', 5);
  const p99 = relay.last('p99', 10);
  const p50 = relay.last('p50', 10);
  const w = status.window;
  return [
    { label: 'Events', value: latest === null ? '–' : `${rate(latest)}/s`, note: `${count(status.counts.published)} since the start`, ...of('rate') },
    { label: 'Latency, p99', value: p99 === null ? '–' : seconds(p99), note: p50 === null ? 'nothing in the last 10 s' : `p50 ${seconds(p50)}`, ...of('p99') },
    oldest(status, relay, of('oldest')),
    status.source === 'polling' ? unpublished(status) : retained(status.replication_slot, source.slots.get(status.slot)),
    {
      label: 'In flight', value: count(w.records), tone: w.full ? 'wait' : 'none', ...of('records'),
      note: w.full ? 'full: reading pauses' : `${w.records > 0 ? percent(w.records / w.max_records) + ' of' : 'of'} ${count(w.max_records)} records`,
    },
  ];
}

// reads are the states in which a source knows what is committed and not confirmed.
const reads = ['streaming', 'polling', 'halted', 'snapshot', 'paused', 'draining'];

function oldest(status, relay, points) {
  const polling = status.source === 'polling';
  const age = !polling ? status.oldest_unconfirmed_seconds : status.backlog?.rows ? relay.last('oldest') ?? 0 : 0;
  const label = polling ? 'Oldest unpublished' : 'Oldest unconfirmed';
  if (age === 0 && (!reads.includes(status.state.name) || polling && !status.backlog)) {
    return { label, value: '–', note: 'not known', ...points };
  }
  return {
    label, value: age === 0 ? 'none' : seconds(age),
    note: age !== 0 ? 'since its commit' : polling ? 'all is published' : 'all is confirmed', ...points,
  };
}

function unpublished(status) {
  const rows = status.backlog?.rows;
  return { label: 'Backlog', value: rows === undefined ? '–' : `${count(rows)}${rows >= 100000 ? '+' : ''} rows`, note: rows === undefined ? 'not counted yet' : 'not published yet', times: [], values: [] };
}

function retained(slot, series) {
  const points = { times: series?.columns[0] ?? [], values: series?.columns[1 + series.names.indexOf('retained')] ?? [] };
  if (!slot) return { label: 'Retained WAL', value: '–', note: 'not known', ...points };
  const limit = slot.max_slot_wal_keep_size_bytes;
  return {
    label: 'Retained WAL', value: bytes(slot.retained_wal_bytes), tone: { warn: 'wait', critical: 'bad' }[slot.level] ?? 'none', ...points,
    note: slot.wal_status === 'lost' ? 'the slot is lost' : limit === null ? 'no limit is set' : `${percent(slot.retained_wal_bytes / limit)} of ${bytes(limit)}`,
  };
}

// roomOf is how long the slot lasts, otherwise how much it may still hold back.
export function roomOf(slot) {
  if (!slot) return null;
  if (slot.wal_status === 'lost') return { label: 'The slot', value: 'lost', note: 'its WAL is removed', tone: 'bad' };
  const limit = slot.max_slot_wal_keep_size_bytes;
  const left = limit === null ? null : Math.max(0, slot.safe_wal_bytes ?? limit - slot.retained_wal_bytes);
  const room = left === null ? `${bytes(slot.retained_wal_bytes)} retained, no limit is set` : `${bytes(left)} of ${bytes(limit)} are left`;
  const tone = slot.level === 'critical' ? 'bad' : 'none';
  const full = slot.seconds_to_full ?? Infinity; // the limit may be larger than the disk
  if (slot.seconds_to_limit !== null && slot.seconds_to_limit <= full) return { label: 'Until the slot is lost', value: span(slot.seconds_to_limit), note: room, tone };
  if (slot.seconds_to_full != null) return { label: 'Until the volume of pg_wal is full', value: span(slot.seconds_to_full), note: room, tone };
  if (left === null) return { label: 'Held back by the slot', value: bytes(slot.retained_wal_bytes), note: 'no limit is set', tone };
  return { label: 'Room of the slot', value: bytes(left), note: `of ${bytes(limit)}; it does not grow`, tone };
}

// showVital writes what counts first in trouble.
export function showVital(head, slot, now) {
  const trouble = head.tone === 'wait' || head.tone === 'bad';
  const waits = head.since && { label: head.label, value: span(now - new Date(head.since) / 1000), note: `since ${time(head.since)}`, tone: 'none' };
  const vital = trouble ? [waits, roomOf(slot)].filter(Boolean) : [];
  show(byId('vital'), vital.length > 0);
  list(byId('vital'), vital, (v) => v.label, (v) => make('div', '', make('dt', '', v.label), make('dd', 'figure'), make('dd', 'note')), (el, v) => {
    attr(el, 'data-tone', v.tone);
    text(el.children[1], v.value);
    text(el.children[2], v.note);
  });
}
