// How far a snapshot or a backlog is, and when it is done at the rate that this page has seen.

import { attr, byId, show, text } from './dom.js';
import { bytes, count, percent, rate, span } from './format.js';

const looks = 60; // seconds over which the rate is measured

// speed is how much less is left per second, over points [seconds, left]; null where it is not known or grows.
export function speed(points) {
  const end = points.at(-1);
  const from = points.find(([at]) => end && at >= end[0] - looks);
  if (!from || end[0] - from[0] < 3) return null;
  const v = (from[1] - end[1]) / (end[0] - from[0]);
  return v > 0 ? v : null;
}

let seen = []; // of the snapshot: [seconds, rows left]
let most = 0; // the backlog at its largest since it began

function snapshotProgress({ done, total }, now) {
  if (seen.length && now - seen.at(-1)[0] > looks) seen = [];
  seen.push([now, total - done]);
  if (seen.length > looks) seen.shift();
  return { name: 'Snapshot', share: total ? done / total : 0, words: `${count(done)} of ${count(total)} rows`, left: total - done, v: speed(seen), per: (v) => `${rate(v)} rows/s` };
}

function backlogProgress(left, series) {
  most = Math.max(most, left);
  const [times] = series?.columns ?? [[]];
  const values = series?.columns[1 + series.names.indexOf('unconfirmed')] ?? [];
  const points = times.slice(-200).map((t, i) => [t, values.slice(-200)[i]]).filter(([, v]) => v !== null);
  return { name: 'Backlog', share: 1 - left / most, words: `${bytes(left)} of WAL left`, left, v: speed(points), per: (v) => `${bytes(v)}/s` };
}

export function showProgress(status, series, now) {
  const slot = status.replication_slot;
  let p = null;
  if (status.state.name === 'snapshot' && status.snapshot) p = snapshotProgress(status.snapshot, now);
  else if (status.cause.code === 'catching_up' && slot) p = backlogProgress(slot.unconfirmed_wal_bytes, series);
  else most = 0;
  show(byId('progress'), Boolean(p));
  if (!p) return;
  const bar = byId('progress-bar');
  bar.style.width = 100 * p.share + '%';
  attr(bar.parentElement, 'aria-valuenow', String(Math.round(100 * p.share)));
  attr(bar.parentElement, 'aria-label', `${p.name}: ${p.words}`);
  text(byId('progress-text'), `${p.name}: ${p.words}, ${percent(p.share)} done` + (p.v ? `, ${p.per(p.v)}, about ${span(p.left / p.v)} left.` : '. The time left is not known yet.'));
}
