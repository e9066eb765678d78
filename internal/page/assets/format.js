// Numbers as people read them. The page is in English, whatever the browser's language, so that its words and figures agree.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const clockOf = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayOf = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

export const count = (n) => whole.format(n);

// rate keeps a digit after the point where that digit is much of the value.
export const rate = (n) => (n < 10 && n % 1 !== 0 ? short.format(n) : whole.format(n));

export function bytes(n) {
  let i = 0;
  for (; Math.abs(n) >= 1024 && i < 5; i++) n /= 1024;
  return short.format(Math.abs(n) >= 1000 ? Math.round(n) : n) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][i];
}

// seconds is a measured time: milliseconds where they matter.
export function seconds(s) {
  if (s < 0.001) return s === 0 ? '0 s' : short.format(s * 1e6) + ' µs';
  if (s < 1) return short.format(s * 1000) + ' ms';
  return s < 100 ? short.format(s) + ' s' : span(s);
}

// span writes a duration in its two largest units.
export function span(s) {
  s = Math.max(0, Math.round(s));
  const parts = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const at = parts.findIndex(([, n]) => s >= n);
  if (at < 0) return '0 s';
  const [unit, n] = parts[at];
  const first = `${Math.floor(s / n)} ${unit}`;
  const rest = at < 3 ? Math.floor((s % n) / parts[at + 1][1]) : 0;
  return rest > 0 ? `${first} ${rest} ${parts[at + 1][0]}` : first;
}

export const percent = (share) => (share > 0 && share < 0.01 ? '< 1 %' : `${Math.round(share * 100)} %`);

// clock is a time of day of this browser's, with the day where it is not today.
export function clock(date, now = new Date()) {
  const time = clockOf.format(date);
  return date.toDateString() === now.toDateString() ? time : `${dayOf.format(date)}, ${time}`;
}
