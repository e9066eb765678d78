// What to do: a sentence, and the commands to paste, each with a button that copies it.

import { attr, list, make, show, text } from './dom.js';

// remedyOf reads it from anything of /status that has one.
export const remedyOf = ({ next = '', commands = [] }) => ({ next, commands });

export function showCommands(ol, commands) {
  show(ol, commands.length > 0);
  list(ol, commands.map((command, i) => ({ command, i })), ({ i }) => String(i),
    () => make('li', '', ...copied(make('pre'))),
    (el, { command, i }) => {
      const [code, button] = el.children;
      text(code, command);
      attr(button, 'aria-label', commands.length > 1 ? `Copy command ${i + 1}` : 'Copy the command');
    });
}

// copied is an element with the button that copies its text.
export function copied(code) {
  const button = make('button', '', 'Copy');
  button.type = 'button';
  button.addEventListener('click', () => copy(code, button));
  return [code, button];
}

// quoted is a text as one word of a shell. Rows determine ids.
export const quoted = (s) => (/^[\w][\w.:-]*$/.test(s) ? s : `'${s.replaceAll("'", "'\\''")}'`);

const restore = new WeakMap();

// copy works without a secure context, too: http from another host has no clipboard API.
async function copy(code, button) {
  let done = false;
  try {
    await navigator.clipboard.writeText(code.textContent);
    done = true;
  } catch {
    getSelection().selectAllChildren(code);
    done = document.execCommand('copy');
  }
  text(button, done ? 'Copied' : 'Selected');
  clearTimeout(restore.get(button));
  restore.set(button, setTimeout(() => text(button, 'Copy'), 2000));
}
