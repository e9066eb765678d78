// The slots of a server as a table, the slot at the highest risk first. A row opens to the slot's chart and remedy.

import { attr, make, show, text } from './dom.js';
import { bytes, span } from './format.js';
import { headline } from './headline.js';
import { SlotCard, reader } from './slots.js';
import { Spark } from './spark.js';

const levels = ['ok', 'warn', 'critical'];
const tones = { ok: 'ok', warn: 'wait', critical: 'bad' };
const words = { ok: 'OK', warn: 'Warning', critical: 'Critical' };
const soon = 3600; // seconds until a loss that comes before one that has happened
const many = 20; // slots from which on rows are narrow

// byRisk orders slots: what can still be saved within the hour, then what is lost, then what holds back most.
export function byRisk(slots) {
  const lost = (s) => s.wal_status === 'lost';
  const left = (s) => Math.min(s.seconds_to_limit ?? Infinity, s.seconds_to_full ?? Infinity);
  const risk = (s) => [-levels.indexOf(s.level), lost(s) || left(s) >= soon ? soon : left(s), lost(s) ? 0 : 1, Math.min(left(s), Number.MAX_VALUE), lost(s) ? 0 : -s.retained_wal_bytes];
  const compared = slots.map((slot) => ({ slot, risk: risk(slot) }));
  compared.sort((a, b) => a.risk.map((v, i) => v - b.risk[i]).find((d) => d) ?? (a.slot.name < b.slot.name ? -1 : 1));
  return compared.map(({ slot }) => slot);
}

// timeLeft is until the slot, or the volume, has no more room.
export function timeLeft(slot) {
  if (slot.wal_status === 'lost') return 'lost';
  const left = [slot.seconds_to_limit, slot.seconds_to_full].filter((s) => s !== null && s !== undefined);
  if (left.length) return span(Math.min(...left));
  return '–';
}

export class SlotTable {
  constructor(table) {
    this.table = table;
    this.rows = new Map(); // by name
  }

  update(slots, source, history) {
    show(this.table, slots.length > 0);
    this.table.classList.toggle('dense', slots.length > many);
    const names = new Set(slots.map((s) => s.name));
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      row.remove();
      this.rows.delete(name);
    }
    const focused = document.activeElement;
    for (const [i, slot] of byRisk(slots).entries()) {
      if (!this.rows.has(slot.name)) this.rows.set(slot.name, new Row(slot.name));
      const row = this.rows.get(slot.name);
      if (this.table.tBodies[i] !== row.body) this.table.insertBefore(row.body, this.table.tBodies[i] ?? null);
      row.update(slot, source, history);
    }
    // A row that moves would lose the focus.
    if (document.activeElement !== focused && this.table.contains(focused)) focused.focus({ preventScroll: true });
  }
}

let ids = 0;

class Row {
  constructor(name) {
    this.spark = new Spark();
    this.button = make('button', 'name', name);
    this.button.type = 'button';
    this.bar = make('div', 'bar');
    this.meter = make('div', 'meter', this.bar);
    attr(this.meter, 'aria-hidden', 'true'); // the figures say it
    this.cells = {
      reader: cell('Reader'), state: cell('State', make('span', 'pill')), retained: cell('Retained', make('span', 'figure'), this.meter),
      growth: cell('Growth', make('span', 'figure'), this.spark.svg), left: cell('Time left'), cause: cell('Cause', make('span', 'cut')),
    };
    const head = make('th', '', this.button);
    attr(head, 'scope', 'row');
    attr(head, 'role', 'rowheader');
    const tr = make('tr', 'slot-row', head, ...Object.values(this.cells));
    attr(tr, 'role', 'row');
    this.inside = make('td');
    this.inside.colSpan = 7;
    this.more = make('tr', 'more', this.inside);
    this.more.id = `slot-more-${ids++}`;
    this.more.hidden = true;
    attr(this.inside, 'role', 'cell');
    attr(this.more, 'role', 'row');
    attr(this.button, 'aria-expanded', 'false');
    attr(this.button, 'aria-controls', this.more.id);
    this.body = make('tbody', '', tr, this.more);
    attr(this.body, 'role', 'rowgroup');
    tr.addEventListener('click', () => {
      if (getSelection().isCollapsed) this.toggle();
    });
  }

  toggle() {
    const open = this.more.hidden;
    show(this.more, open);
    attr(this.button, 'aria-expanded', String(open));
    if (!open) return this.close();
    this.card = new SlotCard(this.inside, { name: this.slot.name });
    this.card.update(this.slot, this.source.view.slots.get(this.slot.name), this.history);
  }

  close() {
    this.card?.remove();
    this.card = null;
  }

  remove() {
    this.close();
    this.body.remove();
  }

  update(slot, source, history) {
    Object.assign(this, { slot, source, history });
    const { cells } = this;
    const lost = slot.wal_status === 'lost';
    attr(this.body, 'data-tone', tones[slot.level]);
    text(cells.reader, slot.synced && !slot.active ? 'a standby’s copy' : reader(slot));
    text(cells.state.firstElementChild, lost ? 'Lost' : words[slot.level]);
    const limit = slot.max_slot_wal_keep_size_bytes ?? slot.wal_volume_bytes ?? null;
    text(cells.retained.firstElementChild, lost ? 'removed' : bytes(slot.retained_wal_bytes) + (limit ? ` of ${bytes(limit)}` : ''));
    const share = limit ? Math.min(1, slot.retained_wal_bytes / limit) : 0;
    this.meter.classList.toggle('blank', lost || !limit);
    this.bar.style.width = share * 100 + '%';
    attr(this.bar, 'data-tone', slot.level === 'critical' || share > 0.9 ? 'bad' : slot.level === 'warn' || share > 0.5 ? 'wait' : 'ok');
    const growth = slot.growth_bytes_per_second;
    text(cells.growth.firstElementChild, lost || growth === null ? '–' : growth < 1 ? '0 B/s' : `${bytes(growth)}/s`);
    const points = lost ? null : source.slots.get(slot.name);
    this.spark.draw(points?.columns[0] ?? [], points?.columns[1] ?? [], history.now / 1000, { fromZero: false });
    text(cells.left, timeLeft(slot));
    text(cells.cause.firstElementChild, slot.level === 'ok' && slot.cause.code === 'idle' ? 'Nothing to send' : headline(slot.cause));
    this.card?.update(slot, source.view.slots.get(slot.name), history);
  }
}

function cell(label, ...children) {
  const td = make('td', '', ...children);
  attr(td, 'role', 'cell');
  attr(td, 'data-label', label);
  return td;
}
