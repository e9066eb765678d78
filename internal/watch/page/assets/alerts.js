// The firing alerts, grouped by their cause, with the remedy of each cause that is not the headline's.

import { attr, byId, list, make, show, text } from './dom.js';
import { span, time } from './format.js';
import { headline } from './headline.js';
import { remedyOf, showCommands } from './remedy.js';

const unknown = { code: '', sentence: '' };

// grouped gives [{ key, title, next, commands, alerts }], in the order of the alerts, which is the worst first. An alert
// keeps the cause for which it fired, so an alert that calms down is not in the group of a new cause.
export function grouped(alerts, { cause, slots }) {
  const groups = new Map();
  for (const a of alerts) {
    const slot = slots?.find((s) => s.name === a.slot);
    const why = a.cause ?? unknown;
    const key = `${slot?.name ?? ''} ${why.code}`;
    if (!groups.has(key)) groups.set(key, { key, alerts: [], ...about(why, slot, cause) });
    groups.get(key).alerts.push(a);
  }
  return [...groups.values()];
}

function about(why, slot, present) {
  const known = !['', 'idle', 'streaming'].includes(why.code);
  if (slot) return { title: !known || why.object?.includes(slot.name) ? headline(known ? why : { sentence: `Slot ${slot.name}` }) : `Slot ${slot.name}: ${headline(why)}`, ...remedyOf(why) };
  const atTop = why.code === present?.code; // with its remedy
  return { title: known ? headline(why) : 'The slot', ...remedyOf(atTop ? {} : why) };
}

export function showAlerts(status, now) {
  const alerts = status.alerts ?? [];
  show(byId('alerts-none'), alerts.length === 0);
  byId('alerts-part').classList.toggle('none-fires', alerts.length === 0);
  list(byId('alerts'), grouped(alerts, status), (g) => g.key,
    () => make('li', 'card', make('h3'), make('ul', 'of-cause'), make('p', 'next'), make('ol', 'commands')),
    (el, group) => {
      const [title, ul, next, commands] = el.children;
      attr(el, 'data-tone', toneOf(group.alerts[0]));
      text(title, group.title);
      showGroup(ul, group.alerts, now);
      show(next, Boolean(group.next));
      text(next, group.next);
      showCommands(commands, group.commands);
    });
}

const toneOf = (a) => (a.level === 'critical' ? 'bad' : 'wait');

function showGroup(ul, alerts, now) {
  list(ul, alerts, (a) => `${a.alert} ${a.slot ?? ''}`,
    (a) => {
      const link = make('a', '', 'Runbook');
      link.rel = 'noopener noreferrer';
      attr(link, 'aria-label', `Runbook for ${a.alert}`);
      return make('li', '', make('span', 'pill'), make('p', 'what'), make('p', 'when'), link);
    },
    (el, a) => {
      const [pill, what, when, link] = el.children;
      attr(link, 'href', a.runbook); // a setting of the process may change over a restart
      attr(el, 'data-tone', toneOf(a));
      text(pill, a.level === 'critical' ? 'Critical' : 'Warning');
      text(what, a.sentence);
      const since = new Date(a.since);
      text(when, [a.alert, a.slot && `slot ${a.slot}`, `since ${time(since)}, ${span(now - since / 1000)}`].filter(Boolean).join(' · '));
    });
}
