// Numbers as people read them. The page is in English, whatever the browser's language, so that its words and figures agree.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

export const count = (n) => whole.format(n);

// rate keeps a digit after the point where that digit is much of the value.
export const rate = (n) => (n < 10 && n % 1 !== 0 ? short.format(n) : whole.format(n));

// digits has three significant ones, and from 1,000 on none after the point.
const digits = (n) => (Math.abs(n) >= 1000 ? whole : short).format(n);

// bytes, seconds, span and time are spelled as by the program itself: internal/base/human/testdata/spelling.json holds both to it.
export function bytes(n) {
  let i = 0;
  for (; Math.abs(n) >= 1024 && i < 5; i++) n /= 1024;
  return digits(n) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][i];
}

// seconds is a measured time: milliseconds where they matter.
export function seconds(s) {
  if (s <= 0) return '0 s';
  if (s < 0.001) return digits(s * 1e6) + ' µs';
  if (s < 1) return digits(s * 1000) + ' ms';
  return s < 100 ? digits(s) + ' s' : span(s);
}

// span writes a duration in its two largest units. What is less than that is left off, not rounded up.
export function span(s) {
  if (s < 0.001) return '0 s';
  if (s < 1) return Math.floor(s * 1000) + ' ms';
  const parts = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const at = parts.findIndex(([, n]) => s >= n);
  const [unit, n] = parts[at];
  const first = `${Math.floor(s / n)} ${unit}`;
  const rest = at < 3 ? Math.floor((s % n) / parts[at + 1][1]) : 0;
  return rest > 0 ? `${first} ${rest} ${parts[at + 1][0]}` : first;
}

export const percent = (share) => (share > 0 && share < 0.01 ? '< 1 %' : `${Math.round(share * 100)} %`);

// time is a moment (a Date, milliseconds, or its JSON), in UTC as in logs and alerts. The commands take it as it is.
export const time = (at) => new Date(at).toISOString().slice(0, 19) + 'Z';
