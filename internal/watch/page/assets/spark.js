// A line without axes, for a tile or the row of a table. The figures are beside it as text.

const ns = 'http://www.w3.org/2000/svg';
const bins = 90;
const [width, height] = [100, 24];

export class Spark {
  constructor(color = 'one') {
    this.svg = document.createElementNS(ns, 'svg');
    this.path = document.createElementNS(ns, 'path');
    this.svg.setAttribute('class', `spark ${color}`);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.setAttribute('preserveAspectRatio', 'none');
    this.svg.setAttribute('aria-hidden', 'true');
    this.svg.append(this.path);
  }

  // draw shows values by time, in seconds: from zero, or from the least of them.
  draw(times, values, now, { fromZero = true, seconds = 900 } = {}) {
    const d = pathOf(times, values, now, fromZero, seconds);
    if (this.path.getAttribute('d') !== d) this.path.setAttribute('d', d);
  }
}

// pathOf draws the largest value of each bin of time, with a gap where nothing is known for three bins, or for three
// times as long as samples are usually apart.
export function pathOf(times, values, now, fromZero = true, seconds = 900) {
  const first = Math.max(times.find((_, i) => values[i] !== null) ?? now, now - seconds);
  const long = Math.max(now - first, 60);
  const most = Array(bins).fill(null);
  times.forEach((t, i) => {
    const bin = Math.min(bins - 1, Math.floor(((t - now + long) / long) * bins));
    if (bin >= 0 && values[i] !== null) most[bin] = Math.max(most[bin] ?? values[i], values[i]);
  });
  const apart = times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b);
  const gap = Math.max(3, (3 * (apart[apart.length >> 1] ?? 0) * bins) / long);
  const known = most.filter((v) => v !== null);
  if (!known.length) return '';
  const low = fromZero ? 0 : Math.min(...known);
  const range = Math.max(...known) - low || 1;
  let d = '';
  let last = -Infinity;
  most.forEach((v, bin) => {
    if (v === null) return;
    const point = `${((bin + 0.5) / bins * width).toFixed(1)} ${(height - 1.5 - (v - low) / range * (height - 3)).toFixed(1)}`;
    d += bin - last > gap ? `M${point}h0.1` : `L${point}`;
    last = bin;
  });
  return d;
}
