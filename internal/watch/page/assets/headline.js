// The headline: what is the matter, in at most twelve words. What the process says in full is below it.

const most = 12; // words
const raw = /\b(dial|read|write) (tcp|unix|error)\b|ERROR:|SQLSTATE|use of closed|i\/o timeout|\w: .*\w: .*\w: /;

const capital = (s) => s.charAt(0).toUpperCase() + s.slice(1);
const words = (s) => s.trim().split(/\s+/);

function cut(s) {
  const all = words(s.replace(/[.:;,\s]+$/, ''));
  return capital(all.length > most ? all.slice(0, most).join(' ') + ' …' : all.join(' '));
}

// object is what the cause is about, in at most so many words.
const object = (cause, otherwise, n = 4) => (cause.object && words(cause.object).length <= n ? cause.object : otherwise);
const first = (s, pattern, otherwise) => s.match(pattern)?.[1] ?? otherwise;

const refusal = (cause, who) => (/refused/.test(cause.sentence) ? `${who} refuses connections`
  : /password|authentication failed/i.test(cause.sentence) ? `${who} refuses the password` : `${who} does not answer`);

const of = {
  bad_row: (c) => `A row cannot be published: ${cut(first(c.sentence, /LSN [^:]*: ([^:;.]*)/, 'the reason is below'))}`,
  standby: (c) => `Standing by for pid ${first(c.sentence, /(?:backend|pid) (\d+)/, '')}`.replace(/ for pid $/, ': another process holds the slot'),
  postgres_unreachable: (c) => (/permission denied/.test(c.sentence) ? 'Postgres denies access to the slot’s figures' : refusal(c, 'Postgres')),
  broker_unreachable: (c) => refusal(c, capital(object(c, 'A Kafka broker'))),
  topic_missing: (c) => `${capital(object(c, 'A topic'))} does not exist`,
  not_authorized: (c) => `Kafka denies access to ${object(c, 'a topic')}`,
  no_leader: (c) => `No broker leads ${object(c, 'a partition')}`,
  slot_lost: (c) => `${capital(object(c, 'The slot'))} is lost`,
  slot_missing: (c) => `${capital(object(c, 'The slot'))} does not exist`,
  no_consumer: (c) => `No process reads ${object(c, 'the slot')}`,
  open_transaction: (c) => `An open transaction holds the slot back${object(c, '') && `: ${object(c, '')}`}`,
  large_transaction: () => 'Reading a large transaction',
  back_pressure: () => 'Kafka acknowledges more slowly than Postgres sends',
  unacknowledged: () => 'Kafka has not acknowledged the oldest transaction',
  position_not_remembered: () => 'The checkpoint cannot be written',
  physical_standbys: () => 'A transaction waits for the standbys',
  stream_breaks: () => 'The stream from Postgres breaks again and again',
  catching_up: () => 'Reading a backlog',
  dead_letters: () => 'Rows could not be published',
  table_unpublished: () => 'The publication does not fit the tables',
  partitions_added: (c) => `${capital(object(c, 'A topic'))} has more partitions`,
  synchronous_standby: () => 'Commits wait for this relay',
  monitor_blind: () => 'Postgres does not answer the monitor',
  paused: (c) => `Paused by ${words(first(c.sentence, /by ([^:]*):/, 'an operator')).slice(0, 4).join(' ')}`,
  needs_operator: (c) => (raw.test(c.sentence) && /refused|password|timeout/i.test(c.sentence) ? refusal(c, /broker|kafka/i.test(c.sentence) ? 'Kafka' : 'Postgres') : ''),
};

// headline derives from the code where the code is known; otherwise it is the sentence's first clause.
export function headline(cause) {
  const sentence = cause.sentence ?? '';
  const own = Object.hasOwn(of, cause.code ?? '') ? of[cause.code]({ ...cause, sentence }) : '';
  if (own) return cut(own);
  const whole = sentence.replace(/\.$/, '');
  if (words(whole).length <= most && !raw.test(whole)) return cut(whole);
  return cut(whole.split(/[:;,.](?:\s|$)/)[0] || whole);
}

// isRaw: the sentence carries another program's error, which is folded.
export const isRaw = (sentence) => raw.test(sentence) || sentence.length > 300;
