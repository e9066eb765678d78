// Replication slots: what each holds back, its limit, and where it is going. The same for the connector's own slot and for all
// slots of the command monitor.

import { Chart } from './charts.js';
import { show, text, attr, make } from './dom.js';
import { bytes, percent, span } from './format.js';
import { remedyOf, showCommands } from './remedy.js';

// room is how far ahead a forecast is drawn, as a part of the time that is shown.
const room = 0.15;

// limitOf is what the slot is measured against: the server's limit, otherwise the threshold of the alert.
function limitOf(slot, facts) {
  if (slot.max_slot_wal_keep_size_bytes !== null) return { at: slot.max_slot_wal_keep_size_bytes, name: 'max_slot_wal_keep_size', hard: true };
  return { at: facts.critical_retained_bytes, name: 'the critical threshold' };
}

// forecast says in words where it is going, from the server's own figures.
export function forecast(slot, facts) {
  if (slot.wal_status === 'lost') return slot.invalidation_reason ? `invalidation_reason: ${slot.invalidation_reason}` : '';
  const growth = slot.growth_bytes_per_second;
  const limit = limitOf(slot, facts);
  const measure = limit.hard ? `The limit is ${bytes(limit.at)} (max_slot_wal_keep_size).`
    : `The server sets no limit (max_slot_wal_keep_size), so the disk is it; alerts fire from ${bytes(facts.warn_retained_bytes)} on, critical from ${bytes(facts.critical_retained_bytes)}.`;
  let going = 'How fast it grows is known after half a minute.';
  if (growth !== null && growth < 1) going = 'It does not grow.';
  if (growth !== null && growth >= 1) {
    going = `It grows by ${bytes(growth)}/s`;
    if (slot.seconds_to_limit !== null) going += `: it reaches the limit in ${span(slot.seconds_to_limit)}`;
    else if (!limit.hard && slot.retained_wal_bytes < facts.warn_retained_bytes) {
      going += `: it reaches ${bytes(facts.warn_retained_bytes)} in ${span((facts.warn_retained_bytes - slot.retained_wal_bytes) / growth)}`;
    }
    going += '.';
  }
  const full = slot.seconds_to_full != null ? ` The volume of pg_wal is full in ${span(slot.seconds_to_full)}.` : '';
  return `${going} ${measure}${full}`;
}

export class SlotCard {
  constructor(parent, { alone, name }) {
    this.alone = alone;
    this.chart = new Chart(parent, {
      id: alone ? 'chart-wal' : '', className: alone ? 'slot-wal wide' : 'slot',
      title: alone ? 'WAL that the slot holds back' : name,
      lines: [
        { name: 'retained', label: 'retained', color: 'one', format: bytes },
        { name: 'unconfirmed', label: 'of it unconfirmed', color: 'two', format: bytes },
      ],
      axis: bytes, top: 1 << 20, incrs: powers(),
      marks: () => this.marks(), ahead: () => this.ahead(), room,
    });
    if (!alone) {
      this.level = make('span', 'pill');
      this.chart.title.append(' ', this.level);
      this.who = make('p', 'note');
      this.why = make('p', 'why');
      this.next = make('p', 'next');
      this.commands = make('ol', 'commands');
      this.chart.title.parentElement.append(this.who);
      this.chart.figure.append(this.why, this.next, this.commands);
    }
  }

  remove() {
    this.chart.remove();
  }

  // marks: the server's limit; where it has none, the thresholds.
  marks() {
    if (!this.slot) return [];
    const limit = limitOf(this.slot, this.facts);
    if (limit.hard) return [{ at: limit.at, color: 'limit' }];
    return [{ at: this.facts.warn_retained_bytes, color: 'warned' }, { at: limit.at, color: 'limit' }];
  }

  ahead() {
    const growth = this.slot?.growth_bytes_per_second;
    const from = this.series?.last('retained') ?? null;
    if (!growth || growth < 1 || from === null || this.stale) return [];
    const { end } = this.series;
    const until = this.chart.times()[1];
    return [[end, from], [until, from + growth * (until - end)]];
  }

  update(slot, series, facts) {
    Object.assign(this, { slot, series, facts, now: facts.now / 1000 });
    this.stale = this.now - Date.parse(slot.sampled_at) / 1000 > 3 * facts.slots_every_ms / 1000 + 10;
    const { chart } = this;
    // A forecast of some days would be drawn from the growth of some minutes.
    chart.spec.room = series?.gap > 60 ? 0 : room;
    const limit = limitOf(slot, facts);
    const lost = slot.wal_status === 'lost';
    for (const part of [chart.plot, chart.keys]) show(part, !lost);
    text(chart.value, lost ? 'lost' : bytes(slot.retained_wal_bytes));
    text(chart.unit, lost ? 'The server removed WAL that the slot needs.' : limit.hard ? `of ${bytes(limit.at)} that the server keeps at most` : '');
    if (series) chart.draw(withLast(series, slot), this.now);
    else text(chart.empty, facts.slots_kept_full ? 'No history is kept of so many slots.' : 'No figures yet.');
    this.meter(slot.retained_wal_bytes / limit.at, limit, slot);
    text(chart.note, forecast(slot, facts));
    chart.note.classList.toggle('strong', slot.level !== 'ok');
    if (!this.alone) this.about(slot);
  }

  meter(share, limit, slot) {
    const { used } = this.chart;
    show(used, limit.hard && slot.wal_status !== 'lost');
    const [meter] = used.children;
    const held = Math.min(1, share);
    meter.firstElementChild.style.width = held * 100 + '%';
    attr(meter.firstElementChild, 'data-tone', slot.level === 'critical' || share > 0.9 ? 'bad' : slot.level === 'warn' || share > 0.5 ? 'wait' : 'ok');
    attr(meter, 'aria-valuenow', String(Math.round(held * 100)));
    attr(meter, 'aria-label', `Share of ${limit.name} that is used: ${percent(share)}`);
  }

  // about is what the command monitor reports about another consumer's slot.
  about(slot) {
    attr(this.level, 'data-tone', { ok: 'ok', warn: 'wait', critical: 'bad' }[slot.level]);
    text(this.level, { ok: 'OK', warn: 'warning', critical: 'critical' }[slot.level]);
    text(this.who, [`database ${slot.database}`, slot.plugin, `reader: ${reader(slot)}`, `WAL status ${slot.wal_status}`].join(' · '));
    text(this.why, slot.cause.sentence);
    const remedy = remedyOf(slot.cause);
    show(this.next, Boolean(remedy.next));
    text(this.next, remedy.next);
    showCommands(this.commands, remedy.commands);
  }

  // unknown says why there is nothing to show.
  unknown(why) {
    const { chart } = this;
    text(chart.value, 'not known');
    text(chart.unit, '');
    text(chart.note, why);
    chart.note.classList.remove('strong');
    show(chart.used, false);
  }
}

// withLast says the present figures as /status has them: the newest sample may be a second older.
function withLast(series, slot) {
  const latest = { retained: slot.retained_wal_bytes, unconfirmed: slot.unconfirmed_wal_bytes };
  return { columns: series.columns, last: (name) => latest[name] };
}

export function reader(slot) {
  if (slot.synced && !slot.active) return "a standby's copy has none";
  if (!slot.active) return 'none';
  return `${slot.reader?.application ? slot.reader.application + ', ' : ''}pid ${slot.pid}`;
}

// powers are steps of a vertical axis in bytes.
function powers() {
  const steps = [];
  for (let n = 1; n <= 2 ** 50; n *= 2) steps.push(n);
  return steps;
}
