// The path of a row: Postgres, slot, cdc-outbox, Kafka, and the hop at which it waits.

import { attr, byId, list, make, text } from './dom.js';

const waitsAt = {
  postgres: ['postgres_unreachable', 'postgres_silent', 'open_transaction', 'physical_standbys', 'position_not_remembered', 'stream_breaks'],
  slot: ['slot_lost', 'slot_missing', 'no_consumer', 'other_consumer', 'standby', 'standby_copy'],
  relay: ['bad_row', 'not_streaming', 'not_running', 'stopping', 'paused', 'large_transaction', 'catching_up', 'synchronous_standby'],
  kafka: ['broker_unreachable', 'topic_missing', 'not_authorized', 'no_leader', 'unacknowledged', 'back_pressure'],
};

// needs is where an error that needs an operator occurred, by what it is about.
function needs({ object = '', sentence = '' }) {
  const about = object || sentence;
  if (/^(replication )?slot\b/i.test(about)) return 'slot';
  if (/^(postgres|publication|server|role|table|database)\b/i.test(about)) return 'postgres';
  return /^(kafka|brokers?|topics?|partition|producer)\b/i.test(about) ? 'kafka' : 'relay';
}

// brokenHop is one of postgres, slot, relay and kafka, or '' where nothing waits.
export function brokenHop(cause) {
  if (['idle', 'streaming'].includes(cause.code)) return '';
  const known = Object.keys(waitsAt).find((hop) => waitsAt[hop].includes(cause.code));
  if (cause.code === 'needs_operator') return needs(cause);
  return known ?? (/^(broker|topic|partition|kafka)\b/.test(cause.object ?? '') ? 'kafka' : 'relay');
}

export function showPath(cause, tone, names) {
  const broken = brokenHop(cause);
  list(byId('path'), names, ([hop]) => hop, ([, name]) => make('li', '', make('b', '', name), make('span', 'hop')), (el, [hop]) => {
    attr(el, 'data-tone', hop === broken ? tone : 'none');
    text(el.lastElementChild, hop !== broken ? '' : tone === 'bad' ? 'broken here' : tone === 'wait' ? 'waits here' : 'here');
  });
}
