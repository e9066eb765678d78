// The tab's title and icon show the state, also when the process does not answer. The icon is data: a process that has
// ended serves no files.

import { attr } from './dom.js';

const looks = {
  ok: ['#137a45', 'M9 17l5 5 9-11', ''], rest: ['#44536b', 'M10 16h12', ''], wait: ['#b06f00', 'M16 8v10M16 23v1', '⚠ '],
  bad: ['#b3202c', 'M10 10l12 12M22 10L10 22', '✕ '], silent: ['#5b6472', 'M10 10l12 12M22 10L10 22', '✕ '],
};

const icon = document.querySelector('link[rel=icon]');

export function showTab(tone, label, name) {
  const [color, path, mark] = looks[tone];
  const title = `${mark}${label} · ${name}`;
  if (document.title !== title) document.title = title;
  attr(icon, 'data-state', tone);
  attr(icon, 'href', 'data:image/svg+xml,' + encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    + `<rect width="32" height="32" rx="7" fill="${color}"/><path d="${path}" fill="none" stroke="#fff" stroke-width="4" stroke-linecap="round"/></svg>`));
}
