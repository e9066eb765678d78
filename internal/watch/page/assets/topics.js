// The topics: how many events each has had, and its rate while this page is open.

import { byId, list, make, text } from './dom.js';
import { count, rate } from './format.js';
import { Spark } from './spark.js';

const kept = 120; // seconds of a topic's line
const recent = 10; // seconds over which the rate is measured

// Rates remembers the counts of the last two minutes by topic.
export class Rates {
  seen = new Map();

  add(topics, now) {
    const before = this.seen;
    this.seen = new Map();
    for (const { topic, published } of topics) {
      const points = before.get(topic) ?? [];
      const last = points.at(-1);
      if (last && (published < last[1] || now < last[0])) points.length = 0; // the process began again
      if (now !== points.at(-1)?.[0]) points.push([now, published]);
      while (points[0][0] < now - kept) points.shift();
      this.seen.set(topic, points);
    }
  }

  // of is the rate of the last seconds; null where it is not known yet.
  of(topic) {
    const points = this.seen.get(topic) ?? [];
    const end = points.at(-1);
    const from = points.find(([at]) => at >= end[0] - recent);
    return from && end[0] - from[0] >= 2 ? (end[1] - from[1]) / (end[0] - from[0]) : null;
  }

  // line is the rate between every two answers.
  line(topic) {
    const points = this.seen.get(topic) ?? [];
    return { times: points.slice(1).map(([at]) => at), values: points.slice(1).map(([at, n], i) => (n - points[i][1]) / (at - points[i][0])) };
  }
}

const rates = new Rates();
const sparks = new WeakMap();

export function showTopics(topics, now) {
  rates.add(topics, now);
  const most = topics[0]?.published ?? 1;
  text(byId('topics-note'), topics.length ? 'Events acknowledged since the process started, and the rate of the last ten seconds.' : 'Nothing has been published since the process started.');
  list(byId('topics'), topics, (t) => t.topic,
    () => {
      const spark = new Spark();
      const el = make('li', '', make('span', 'name mono'), make('span', 'count'), make('span', 'rate'), make('div', 'meter', make('div', 'bar')));
      el.insertBefore(spark.svg, el.lastElementChild);
      sparks.set(el, spark);
      return el;
    },
    (el, t) => {
      const [name, n, per] = el.children;
      const v = rates.of(t.topic);
      text(name, t.topic);
      text(n, count(t.published));
      text(per, v === null ? '' : `${rate(v)}/s`);
      const { times, values } = rates.line(t.topic);
      sparks.get(el).draw(times, values, now, { seconds: kept });
      el.querySelector('.bar').style.width = (100 * t.published) / most + '%';
    });
}
