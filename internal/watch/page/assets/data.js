// The history of this page: what the process has kept, and what came since.

// Series holds columns of figures by time, as uPlot takes them: an array of times in seconds, then one array per name.
export class Series {
  constructor(names) {
    this.names = names;
    this.clear();
  }

  clear() {
    this.columns = [[], ...this.names.map(() => [])];
  }

  get length() {
    return this.columns[0].length;
  }

  get end() {
    return this.columns[0].at(-1);
  }

  // last is the latest figure that is known, not older than so many seconds.
  last(name, within = Infinity) {
    const [times] = this.columns;
    const values = this.columns[1 + this.names.indexOf(name)];
    for (let i = values.length - 1; i >= 0 && this.end - times[i] <= within; i--) {
      if (values[i] !== null) return values[i];
    }
    return null;
  }

  // mean is over the latest so many seconds; 0 where nothing is known.
  mean(name, within) {
    const [times] = this.columns;
    const values = this.columns[1 + this.names.indexOf(name)].filter((v, i) => v !== null && this.end - times[i] <= within);
    return values.length ? values.reduce((a, b) => a + b) / values.length : 0;
  }

  // append takes an answer's columns. Where samples are further apart than gap seconds nothing was seen in between, and
  // the line is broken there. When the clock was set back, the data begin again.
  append(part, gap, keep) {
    this.gap = gap;
    for (let i = 0; i < part.at.length; i++) {
      const at = part.at[i] / 1000;
      if (this.length && at === this.end) this.columns.forEach((c) => c.pop()); // it has further figures
      else if (this.length && at <= this.end - 1) this.clear();
      else if (this.length && at <= this.end) continue;
      if (this.length && at - this.end > gap) this.push(this.end + 0.001, () => null);
      this.push(at, (name) => part[name][i]);
    }
    const old = this.columns[0].findIndex((at) => at >= this.end - keep);
    if (old > 0) this.columns.forEach((c) => c.splice(0, old));
  }

  push(at, value) {
    this.columns[0].push(at);
    this.names.forEach((name, i) => this.columns[i + 1].push(value(name)));
  }
}

async function get(url) {
  const answer = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(`${url.split('?')[0]}: HTTP ${answer.status}`);
  return answer.json();
}

// Kept is what the page has of one span of the history: of the last fifteen minutes, a day, or a month.
class Kept {
  relay = new Series(['rate', 'p50', 'p99', 'oldest', 'records', 'bytes']);
  slots = new Map(); // by name
  next = '';
  history = null; // the latest answer
  at = -Infinity;

  constructor(span) {
    this.span = span;
  }

  async ask() {
    const history = await get(`history?span=${this.span}&since=${encodeURIComponent(this.next)}`);
    this.next = history.next;
    this.history = history;
    this.at = performance.now();
    const keep = history.keeps_ms / 1000;
    const gap = (ms, seconds) => (this.span ? 1.5 : seconds) * (ms / 1000); // a minute that is missing is a gap
    if (history.relay) this.relay.append(history.relay, gap(history.every_ms, 3.5), keep);
    for (const name of this.slots.keys()) if (!Object.hasOwn(history.slots, name)) this.slots.delete(name);
    for (const [name, part] of Object.entries(history.slots)) {
      if (!this.slots.has(name)) this.slots.set(name, new Series(['retained', 'unconfirmed']));
      this.slots.get(name).append(part, gap(history.slots_every_ms, 3) + 2, keep);
    }
    return history;
  }
}

const coarse = 10000; // milliseconds between two questions for a day or a month

// Source asks the process.
export class Source {
  fine = new Kept('');
  spans = { '': this.fine, day: new Kept('day'), month: new Kept('month') };
  shown = ''; // what the charts show

  get relay() {
    return this.fine.relay;
  }

  get slots() {
    return this.fine.slots;
  }

  // view is what the charts show: the last fifteen minutes until there is an answer about more.
  get view() {
    const kept = this.spans[this.shown];
    return kept.history ? kept : this.fine;
  }

  async ask() {
    const shown = this.spans[this.shown];
    const due = shown !== this.fine && performance.now() - shown.at > coarse;
    const [status, history] = await Promise.all([get('status'), this.fine.ask(), due ? shown.ask() : null]);
    return { status, history };
  }
}
