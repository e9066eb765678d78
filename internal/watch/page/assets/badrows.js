// The latest dead letters and skipped rows, by event id.

import { byId, list, make, show, text, attr } from './dom.js';
import { count, span, time } from './format.js';
import { copied, quoted } from './remedy.js';

export function showBadRows(status, now) {
  const c = status.counts;
  const rows = status.set_aside ?? [];
  text(byId('bad-rows-note'), !status.set_aside ? `${count(c.dead_lettered)} dead-lettered and ${count(c.skipped)} skipped since the process started. cdc-outbox dead-letter list has them.` : rows.length
    ? 'The latest. cdc-outbox dead-letter list has them all, and corrects and publishes them.'
    : 'None since the process started.');
  show(byId('bad-rows-table'), rows.length > 0);
  list(byId('bad-rows'), rows, (r) => [r.event_id, r.lsn, r.at].join(' '), row, (tr, r) => {
    text(tr.querySelector('.when'), `${time(r.at)}, ${span(now - new Date(r.at) / 1000)} ago`);
  });
}

function row(r) {
  const command = r.event_id && r.action !== 'skip' ? make('code', 'mono', `cdc-outbox dead-letter show ${quoted(r.event_id)}`) : null;
  const parts = command ? copied(command) : ['–'];
  if (command) attr(parts[1], 'aria-label', `Copy the command for event ${r.event_id}`);
  const cells = [
    ['Event', make('span', 'mono', r.event_id || '(no id)')], ['Type', r.event_type || '–'],
    ['Reason', r.reason.replaceAll('_', ' ') + (r.action === 'skip' ? ', skipped' : ', dead letter')],
    ['Topic', make('span', 'mono', r.topic || `LSN ${r.lsn}`)], ['When', make('span', 'when')], ['Command', make('div', 'command', ...parts)],
  ].map(([label, content]) => {
    const td = make('td', '', content);
    attr(td, 'data-label', label);
    attr(td, 'role', 'cell');
    return td;
  });
  const tr = make('tr', '', ...cells);
  attr(tr, 'role', 'row');
  return tr;
}
