// One chart: uPlot with this page's colours, a range of time that is never empty, and the same figures as text.

import { byId, show, text, attr, make } from './dom.js';
import { time } from './format.js';

/* global uPlot */

const dark = matchMedia('(prefers-color-scheme: dark)');
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

// timeLabel is a time of the horizontal axis, in UTC as all times of the page: a midnight is its day.
function timeLabel(s, step) {
  const date = new Date(s * 1000);
  const clock = date.toISOString().slice(11, step < 60 ? 19 : 16);
  return step >= 43200 || (step >= 3600 && clock === '00:00') ? day.format(date) : clock;
}

// fewest is the least time that a chart spans: a process that has just begun shows its seconds, not an empty plane.
const fewest = 60;

// lonely finds points without a neighbour, which no line shows.
function lonely(values, from, to) {
  const found = [];
  for (let i = from; i <= to; i++) {
    if (values[i] != null && values[i - 1] == null && values[i + 1] == null) found.push(i);
  }
  return found;
}

export class Chart {
  // spec: title, lines [{ name, label, color, format }], axis (format of the vertical axis), top (least upper end of it),
  // marks() [{ at, color }] drawn across, ahead() [[time, value], …] drawn dotted, room for it as a part of the time shown.
  constructor(parent, spec) {
    this.spec = { marks: () => [], ahead: () => [], ...spec };
    const figure = byId('chart').content.firstElementChild.cloneNode(true);
    figure.classList.add(...(spec.className ?? '').split(' ').filter(Boolean));
    if (spec.id) figure.id = spec.id;
    const part = (selector) => figure.querySelector(selector);
    Object.assign(this, {
      figure, title: part('h3'), value: part('.value'), unit: part('.unit'), keys: part('.keys'), plot: part('.plot'), used: part('.used'), note: part('.note'),
    });
    text(this.title, spec.title);
    attr(figure, 'aria-label', spec.title);
    attr(this.plot, 'aria-label', `Chart: ${spec.title}. No figures yet.`);
    this.empty = make('p', 'empty', 'No figures yet.');
    this.plot.append(this.empty);
    this.legend = spec.lines.map((line) => {
      const b = make('b');
      this.keys.append(make('span', '', make('i', line.color), line.label + ' ', b));
      return b;
    });
    this.hovered = null;
    parent.append(figure);
    dark.addEventListener('change', this.redraw);
    this.observer = new ResizeObserver(() => this.chart?.setSize(this.size()));
    this.observer.observe(this.plot);
  }

  remove() {
    dark.removeEventListener('change', this.redraw);
    this.observer.disconnect();
    this.chart?.destroy();
    this.figure.remove();
  }

  size() {
    return { width: Math.max(1, this.plot.clientWidth), height: Math.max(1, this.plot.clientHeight) };
  }

  redraw = () => {
    this.chart?.destroy();
    this.chart = null;
    if (this.series) this.draw(this.series, this.now);
  };

  // draw shows the series as of now, in seconds.
  draw(series, now) {
    Object.assign(this, { series, now });
    const known = series.columns.slice(1).some((c) => c.some((v) => v !== null));
    show(this.empty, !known);
    if (known && !this.chart) this.chart = new uPlot(this.options(), series.columns, this.plot);
    else this.chart?.setData(series.columns);
    this.tell();
  }

  // tell writes the figures under the pointer, otherwise the latest, into the legend, and as text for screen readers.
  tell() {
    const { columns } = this.series;
    const at = this.hovered ?? columns[0].length - 1;
    const shown = this.spec.lines.map((line, i) => {
      const v = this.hovered === null ? this.series.last(line.name, 10) : columns[i + 1][at];
      return v == null ? '–' : line.format(v);
    });
    shown.forEach((s, i) => text(this.legend[i], s));
    this.keys.classList.toggle('quiet', this.spec.lines.length < 2 && !this.cut);
    if (this.spec.lines.length < 2) this.tellOne(shown[0], columns[0][at]);
    attr(this.plot, 'aria-label', `Chart: ${this.spec.title}. ` + this.spec.lines.map((line, i) => {
      const all = columns[i + 1].filter((v) => v !== null);
      return all.length
        ? `${line.label} ${shown[i]}, between ${line.format(Math.min(...all))} and ${line.format(Math.max(...all))} since ${time(columns[0][0] * 1000)}`
        : `${line.label} not known yet`;
    }).join('; ') + '.');
  }

  // tellOne writes the figure under the pointer in place of the present one, since a single line has no legend.
  tellOne(figure, at) {
    if (this.hovered === null) {
      if (this.present) [this.value, this.unit].forEach((el, i) => text(el, this.present[i]));
      this.present = null;
      return;
    }
    const words = [figure, `at ${time(at * 1000)}`];
    if (this.unit.textContent !== this.overlay?.[1]) this.present = [this.value.textContent, this.unit.textContent];
    this.overlay = words;
    [this.value, this.unit].forEach((el, i) => text(el, words[i]));
  }

  options() {
    const axis = { stroke: color('muted'), font: '11px system-ui, sans-serif', grid: { stroke: color('edge'), width: 1 }, ticks: { show: false } };
    return {
      ...this.size(),
      tzDate: (s) => uPlot.tzDate(new Date(s * 1000), 'UTC'),
      legend: { show: false },
      padding: [8, 22, 0, 0],
      cursor: { y: false, sync: { key: 'page' }, drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: { time: true, range: () => this.times() }, y: { range: (_, __, max) => [0, this.top(max)] } },
      axes: [
        { ...axis, size: 28, space: 70, values: (u, splits, _, __, step) => splits.map((s) => timeLabel(s, step)) },
        { ...axis, size: 62, space: 34, values: (u, splits) => splits.map((v) => this.spec.axis(v)), incrs: this.spec.incrs },
      ],
      series: [{}, ...this.spec.lines.map((line, i) => ({
        stroke: color(line.color), width: 1.75, fill: i === 0 ? color(line.color) + '24' : undefined,
        points: { show: false, size: 5, fill: color(line.color), filter: (u, s, _, __) => lonely(u.data[s], ...u.series[0].idxs) },
      }))],
      hooks: {
        draw: [(u) => this.decorate(u)],
        setCursor: [(u) => {
          this.hovered = u.cursor.left >= 0 && u.cursor.idx != null ? u.cursor.idx : null;
          this.tell();
        }],
      },
    };
  }

  times() {
    const first = Math.min(this.series.columns[0][0] ?? this.now, this.now - fewest);
    return [first, this.now + (this.now - first) * (this.spec.room ?? 0)];
  }

  // top is the upper end of the vertical axis: everything that is drawn, with some air, and marks that are not far above it.
  top(max) {
    const clipped = this.spec.clips ? clip(this.series.columns.slice(1), max ?? 0) : null;
    this.cut = clipped === null ? null : max;
    let top = Math.max(clipped ?? max ?? 0, this.spec.top ?? 1, ...this.spec.ahead().map(([, v]) => v));
    for (const mark of this.spec.marks()) if (mark.at > top && mark.at < top * 3) top = mark.at;
    return top * 1.12;
  }

  // decorate draws what is not a series: thresholds and the forecast.
  decorate(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.lineWidth = 1.5 * devicePixelRatio;
    for (const mark of this.spec.marks()) {
      if (mark.at > u.scales.y.max) continue;
      const y = Math.round(u.valToPos(mark.at, 'y', true));
      ctx.strokeStyle = color(mark.color);
      ctx.setLineDash(mark.color === 'limit' ? [] : [6 * devicePixelRatio, 4 * devicePixelRatio]);
      line(ctx, [[left, y], [left + width, y]]);
    }
    const ahead = this.spec.ahead();
    if (ahead.length) {
      ctx.strokeStyle = color(this.spec.lines[0].color);
      ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
      line(ctx, ahead.map(([t, v]) => [u.valToPos(t, 'x', true), u.valToPos(v, 'y', true)]));
    }
    ctx.restore();
    this.tellCut();
  }

  // tellCut says how far the values go that the chart has no room for.
  tellCut() {
    this.over ??= this.keys.appendChild(make('span', 'over'));
    show(this.over, this.cut !== null && this.cut !== undefined);
    if (this.cut) text(this.over, `▲ cut off, up to ${this.spec.axis(this.cut)}`);
  }
}

// clip is the upper end that leaves out a spike: twice what 95 of 100 values stay within, where the largest is far above.
export function clip(columns, max) {
  const all = columns.flat().filter((v) => v !== null).sort((a, b) => a - b);
  const usual = all[Math.floor(all.length * 0.95)] ?? 0;
  return all.length >= 20 && usual > 0 && max > 4 * usual ? 2 * usual : null;
}

function line(ctx, points) {
  ctx.beginPath();
  points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.stroke();
}
