// What changes the document. Text is only ever set as text: names come from rows. An element is only touched when something
// about it changes, so that a selection, the focus and a screen reader are left alone.

export const byId = (id) => document.getElementById(id);

// commands are control characters, and characters that change the direction of the text after them.
const commands = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

// text sets the text of an element. A moment in it stays on one line: browsers would wrap it at its hyphens.
export function text(el, value) {
  if (typeof value === 'string') value = value.replace(commands, '\ufffd');
  if (el.textContent === value) return;
  const parts = String(value).split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/);
  if (parts.length === 1) el.textContent = value;
  else el.replaceChildren(...parts.map((part, i) => (i % 2 ? make('time', '', part) : part)).filter(Boolean));
}

export function attr(el, name, value) {
  if (el.getAttribute(name) !== value) el.setAttribute(name, value);
}

export function show(el, on) {
  if (el.hidden === on) el.hidden = !on;
}

export function make(tag, className, ...children) {
  const el = document.createElement(tag);
  if (className) el.className = className;
  el.append(...children);
  return el;
}

// list shows one element per item, in order, and keeps the element of an item that was there before.
export function list(parent, items, key, create, update) {
  const before = new Map([...parent.children].map((el) => [el.dataset.key, el]));
  items.forEach((item, i) => {
    const k = key(item);
    let el = before.get(k);
    if (el) before.delete(k);
    else {
      el = create(item);
      el.dataset.key = k;
    }
    update(el, item);
    if (parent.children[i] !== el) parent.insertBefore(el, parent.children[i] ?? null);
  });
  before.forEach((el) => el.remove());
}

// terms shows pairs of a term and what it is; those without a value are left out. A value that is code is { code: … }.
export function terms(dl, pairs) {
  list(dl, pairs.filter(([, value]) => value), ([term]) => term,
    ([term]) => make('div', '', make('dt', '', term), make('dd')),
    (el, [, value]) => {
      const dd = el.lastElementChild;
      dd.classList.toggle('mono', Boolean(value.code));
      text(dd, value.code ?? value);
    });
}
