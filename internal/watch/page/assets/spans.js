// The buttons that choose how much of the history the charts show.

import { attr, make } from './dom.js';

const spans = [['', '15 min'], ['day', '1 day'], ['month', '30 days']];

export function showSpans(group, source, changed) {
  const buttons = spans.map(([span, label]) => {
    const button = make('button', '', label);
    button.type = 'button';
    button.addEventListener('click', () => {
      source.shown = span;
      press();
      changed();
    });
    return button;
  });
  const press = () => spans.forEach(([span], i) => attr(buttons[i], 'aria-pressed', String(span === source.shown)));
  press();
  group.replaceChildren(...buttons);
}
