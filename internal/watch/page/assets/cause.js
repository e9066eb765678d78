// The first thing on the page: what is the matter, since when, and what to do about it.

import { attr, byId, list, make, show, terms, text } from './dom.js';
import { count, span, time } from './format.js';
import { headline, isRaw } from './headline.js';
import { remedyOf, showCommands } from './remedy.js';
import { byRisk } from './slottable.js';

const fine = ['idle', 'streaming', 'catching_up'];
const states = {
  starting: 'Starting', streaming: 'Streaming', polling: 'Polling', standby: 'Standby', reconnecting: 'Reconnecting', halted: 'Halted', paused: 'Paused', needs_operator: 'Needs an operator',
  snapshot: 'Taking the snapshot', draining: 'Stopping', stopped: 'Stopped',
};
const bad = ['bad_row', 'slot_lost', 'slot_missing'];

// relayHead is what the connector's status comes to.
export function relayHead(status, now, rate) {
  const { state } = status;
  let { cause } = status;
  // From moment to moment an unhindered stream has something under way or nothing; that would only flicker.
  if (rate > 0 && ['idle', 'streaming'].includes(cause.code)) cause = { ...cause, code: 'streaming', sentence: 'Keeping up: what is committed reaches Kafka, and nothing waits.' };
  const waits = ['streaming', 'polling'].includes(state.name) && !fine.includes(cause.code);
  const critical = status.alerts.some((a) => a.level === 'critical');
  let tone = status.ready && fine.includes(cause.code) ? 'ok' : 'wait';
  if (state.name === 'standby' || state.name === 'draining') tone = 'rest';
  if (['halted', 'stopped', 'needs_operator'].includes(state.name) || bad.includes(cause.code) || critical) tone = 'bad';
  const since = cause.since ?? (waits ? null : state.since);
  const others = status.waits_for.filter((w) => w.object !== cause.object || w.kind !== cause.code);
  const halted = status.halted;
  return {
    tone, label: waits ? 'Waiting' : states[state.name] ?? state.name, since, now, cause, others,
    key: [tone, state.name, cause.code, cause.object].join(' '),
    meta: [
      ['Waits for', cause.object],
      ['Event', halted?.event_id && { code: halted.event_id }],
      ['LSN', halted?.lsn && { code: halted.lsn }],
      ['Confirmed up to', tone !== 'ok' && status.confirmed_lsn && { code: status.confirmed_lsn }],
      ['Cause', !fine.includes(cause.code) && { code: cause.code }],
      ['Ready', tone !== 'ok' && (status.ready ? 'yes' : 'no')],
    ],
  };
}

// slotsHead is what all slots of a server come to: the worst one's cause.
export function slotsHead(answer, now) {
  const { slots } = answer;
  const [worst] = byRisk(slots);
  const n = (level) => slots.filter((s) => s.level === level).length;
  const meta = [['Slots', count(slots.length)], ['Critical', n('critical') && count(n('critical'))], ['Warning', n('warn') && count(n('warn'))]];
  if (answer.error) {
    return {
      tone: 'bad', label: 'No answer', now, meta, others: [], key: 'error',
      cause: { sentence: `Postgres does not answer: ${answer.error}`, next: 'See whether the server runs and postgres.dsn leads to it.' },
    };
  }
  if (!worst || worst.level === 'ok') {
    return { tone: slots.length ? 'ok' : 'rest', label: 'Watching', now, meta, others: [], key: 'well ' + slots.length, cause: { sentence: slots.length ? 'All slots are well.' : 'There is no logical replication slot to watch.' } };
  }
  return {
    tone: worst.level === 'critical' ? 'bad' : 'wait', label: worst.level === 'critical' ? 'Critical' : 'Warning', now, others: [],
    since: worst.cause.since, cause: { ...worst.cause, sentence: `Slot ${worst.name}: ${worst.cause.sentence}` }, title: worst.cause.object?.includes(worst.name) ? headline(worst.cause) : `Slot ${worst.name}: ${headline(worst.cause)}`,
    key: [worst.name, worst.level, worst.cause.code].join(' '), meta: [['Slot', { code: worst.name }], ...meta],
  };
}

let announced = '';

export function showHead(head) {
  const { cause } = head;
  attr(byId('cause'), 'data-tone', head.tone);
  text(byId('state'), head.label);
  text(byId('state-since'), since(head.since, head.now));
  const title = head.title ?? headline(cause);
  const more = title !== cause.sentence.replace(/\.$/, '') ? cause.sentence : '';
  const raw = isRaw(more);
  text(byId('cause-sentence'), title);
  show(byId('cause-detail'), more !== '' && !raw);
  text(byId('cause-detail'), raw ? '' : more);
  show(byId('cause-raw'), more !== '' && raw);
  text(byId('cause-raw-text'), raw ? more : '');
  terms(byId('cause-meta'), head.meta);
  const remedy = remedyOf(cause);
  show(byId('remedy'), Boolean(remedy.next) || remedy.commands.length > 0);
  text(byId('remedy-text'), remedy.next);
  showCommands(byId('remedy-commands'), remedy.commands);
  const waits = byId('waits');
  show(waits, head.others.length > 0);
  list(waits, head.others, (w) => w.kind + ' ' + w.object, () => make('li', '', make('p'), make('ol', 'commands')), (el, w) => {
    const also = remedyOf(w);
    text(el.firstElementChild, `Also waits for ${w.object}: ${w.reason}${also.next ? ' ' + also.next : ''}`);
    showCommands(el.lastElementChild, also.commands);
  });
  // A screen reader announces another cause, but not each second in which the figures change.
  if (head.key !== announced) {
    announced = head.key;
    text(byId('announce'), `${head.label}. ${title}`);
  }
}

function since(at, now) {
  if (!at) return '';
  return `since ${time(at)}, ${span(now - new Date(at) / 1000)}`;
}
