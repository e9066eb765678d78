// Asks the process once a second while the page is visible, and says loudly when it does not answer.

import { showAlerts } from './alerts.js';
import { relayHead, showHead, slotsHead } from './cause.js';
import { Source } from './data.js';
import { byId, show, text } from './dom.js';
import { span, time } from './format.js';
import { showPath } from './path.js';
import { showProgress } from './progress.js';
import { Relay } from './relay.js';
import { SlotTable } from './slottable.js';
import { showSpans } from './spans.js';
import { showTab } from './tabstate.js';
import { relayTiles, showTiles, showVital } from './tiles.js';

const every = 1000; // milliseconds between an answer and the next question
const lateAfter = 3; // seconds without an answer

const source = new Source();
let table = null; // of the slots of the command monitor
let relay = null;
let answeredAt = null; // performance.now() of the last answer
let answeredBy = ''; // the moment then
let lookingSince = performance.now();
let failure = '';
let timer;
let asking = false;
let subjectName = 'cdc-outbox';
const hops = [['postgres', 'Postgres'], ['slot', 'Slot'], ['relay', 'cdc-outbox'], ['kafka', 'Kafka']];

async function ask() {
  clearTimeout(timer);
  if (document.hidden || asking) return;
  asking = true;
  let answer = null;
  try {
    answer = await source.ask();
    failure = '';
  } catch (err) {
    failure = err.message.includes('HTTP') ? err.message : '';
  } finally {
    asking = false;
    if (!document.hidden) timer = setTimeout(ask, every);
  }
  if (answer) {
    answeredAt = performance.now();
    answeredBy = time(new Date());
    update(answer);
  }
  freshness();
}

function update(answer) {
  const { status, history } = answer;
  const now = history.now / 1000;
  if (status.source === 'polling') asStreamed(status);
  const head = status.state ? relayHead(status, now, source.relay.mean('rate', 10)) : slotsHead(status, now);
  showHead(head);
  showAlerts(status, now);
  if (status.state) {
    relay ??= new Relay(status.source === 'polling');
    show(byId('relay-charts'), true);
    show(byId('path'), true);
    showPath(status.cause, head.tone, hops.filter(([hop]) => hop !== 'slot' || status.source !== 'polling'));
    showProgress(status, source.slots.get(status.slot), now);
    showVital(head, status.replication_slot, now);
    showTiles(relayTiles(status, source), now);
    relay.update(answer, source, head.tone === 'ok');
    text(byId('charts-title'), lasting(source.view, now));
  } else slots(status, history);
  subject(status);
  subjectName = status.slot ?? status.tables?.join(', ') ?? 'slots';
  showTab(head.tone, head.label, subjectName);
  text(byId('about'), `cdc-outbox ${history.version}, started ${time(history.started)}. Read-only; asks once a second. Times are UTC.`);
}

// asStreamed gives the status of a relay that polls the parts that one with a slot has.
function asStreamed(status) {
  status.halted = status.halted[0];
  status.server = {};
  status.set_aside = null; // not kept: the dead-letter topic has them
  status.replication_slot = null;
}

// lasting is what the charts show: less than the span where the process is younger.
function lasting({ relay, history }, now) {
  const [times] = relay.columns;
  const age = times.length ? now - times[0] : 0;
  return `Last ${span(Math.max(60, Math.min(age, history.keeps_ms / 1000)))}`;
}

function subject(status) {
  const el = byId('subject');
  const words = status.tables ? ['polls ', status.tables.join(', '), '']
    : status.state ? ['slot ', status.slot, status.server.database ? ` in ${status.server.database}` : ''] : ['', 'slot monitor', ''];
  if (el.dataset.is === words.join()) return;
  el.dataset.is = words.join();
  const name = document.createElement('b');
  name.textContent = words[1];
  el.replaceChildren(words[0], name, words[2]);
}

function slots(status, history) {
  show(byId('slots-part'), true);
  show(byId('slots-none'), status.slots.length === 0);
  document.body.classList.add('monitor');
  table ??= new SlotTable(byId('slots'));
  if (byId('main').lastElementChild !== byId('alerts-part')) byId('main').append(byId('alerts-part')); // the table says most of it
  byId('cause').classList.toggle('dense', status.slots.length > 20);
  table.update(status.slots, source, history);
}

// freshness measures by this browser's own clock, which need not agree with the process's.
function freshness() {
  const age = (performance.now() - Math.max(answeredAt ?? 0, lookingSince)) / 1000;
  const late = !document.hidden && age > lateAfter;
  document.body.classList.toggle('old', late);
  byId('fresh').classList.toggle('live', answeredAt !== null && !late);
  text(byId('fresh-text'), late ? 'No answer' : answeredAt === null ? 'Asking' : `Updated ${answeredBy}`);
  show(byId('stale'), late);
  if (!late) return;
  showTab('silent', `no answer${answeredBy ? ' since ' + answeredBy : ''}`, subjectName);
  // The age changes twice a second, so a screen reader announces the other part only.
  text(byId('stale-age'), `No answer for ${span((performance.now() - (answeredAt ?? lookingSince)) / 1000)}. `);
  text(byId('stale-what'), `The process does not answer${failure ? ` (${failure})` : ''}: `
    + (answeredAt === null ? 'there is nothing to show yet.' : `what you see is from ${answeredBy}.`));
}

for (const group of document.querySelectorAll('.spans')) showSpans(group, source, ask);
document.addEventListener('visibilitychange', () => {
  lookingSince = performance.now();
  if (document.hidden) clearTimeout(timer);
  else ask();
});
setInterval(freshness, 500);
ask();
