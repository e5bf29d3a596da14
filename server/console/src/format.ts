// Texts for numbers, times and names. All functions are pure, and accept anything that the server
// may send: a number that is not finite becomes a dash.

const NO_BREAK = '\u00a0';
export const DASH = '–';

const DECIMAL_UNITS = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
const NANOS_PER_SECOND = 1e9;

/** A whole number with groups of three digits: `1,234,567`. */
export function count(value: number): string {
  if (!Number.isFinite(value)) return DASH;
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}

/** A number with three digits and a unit prefix from 10,000 on: `9,876`, `12.3 k`, `4.56 M`. */
export function shortCount(value: number): string {
  if (!Number.isFinite(value)) return DASH;
  if (Math.abs(value) < 10_000) return Number.isInteger(value) || Math.abs(value) >= 100 ? count(value) : digits(value);
  return prefixed(value);
}

/** A rate per second, with enough digits to see small rates: `0.25`, `12.3`, `18.4 k`. */
export function rate(value: number): string {
  if (!Number.isFinite(value)) return DASH;
  if (value === 0) return '0';
  return value < 0.01 ? '<0.01' : shortCount(value);
}

/** A size in decimal units, as in the documentation: `416 B`, `30.1 MB`. */
export function bytes(value: number): string {
  if (!Number.isFinite(value)) return DASH;
  if (Math.abs(value) < 1000) return `${Math.round(value)}${NO_BREAK}B`;
  return `${prefixed(value)}B`;
}

/** A share between 0 and 1: `55.3 %`. */
export function share(value: number): string {
  if (!Number.isFinite(value)) return DASH;
  const percent = value * 100;
  const text = percent > 0 && percent < 0.1 ? '<0.1' : percent.toFixed(percent >= 99.95 ? 0 : 1);
  return `${text}${NO_BREAK}%`;
}

/** A span with three digits: `812 ns`, `1.23 µs`, `45.6 ms`, `7.89 s`, `2 m 05 s`, `3 h 20 m`, `2 d 4 h`. */
export function nanos(value: number): string {
  if (!Number.isFinite(value)) return DASH;
  if (value < 0) return `-${nanos(-value)}`;
  if (value === 0) return `0${NO_BREAK}s`;
  // Limits are a little lower than the unit, so that rounding never gives `1000 ms`.
  if (value < 999.5) return `${Math.round(value)}${NO_BREAK}ns`;
  if (value < 999.5e3) return `${digits(value / 1e3)}${NO_BREAK}µs`;
  if (value < 999.5e6) return `${digits(value / 1e6)}${NO_BREAK}ms`;
  if (value < 59.95 * NANOS_PER_SECOND) return `${digits(value / NANOS_PER_SECOND)}${NO_BREAK}s`;
  const seconds = Math.round(value / NANOS_PER_SECOND);
  const [minute, hour, day] = [60, 3600, 86_400];
  if (seconds < hour) return pair(seconds, minute, 'm', 1, 's');
  if (seconds < day) return pair(seconds, hour, 'h', minute, 'm');
  return pair(seconds, day, 'd', hour, 'h', 1);
}

/** A span in seconds, as `nanos`. */
export function seconds(value: number): string {
  return nanos(value * NANOS_PER_SECOND);
}

/** A text without zeros that say nothing, for the marks of an axis: `20.0 ms` becomes `20 ms`. */
export function plain(text: string): string {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');
}

/** How long ago a time was: `now`, `12 s ago`, `3 m 05 s ago`. Times in the future get `in`. */
export function age(micros: number, nowMicros: number): string {
  if (!Number.isFinite(micros) || !Number.isFinite(nowMicros)) return DASH;
  const span = nowMicros - micros;
  if (Math.abs(span) < 1e6) return 'now';
  // Whole seconds: an age that changes in every digit is hard to read.
  const text = plain(seconds(Math.floor(Math.abs(span) / 1e6)));
  return span > 0 ? `${text} ago` : `in ${text}`;
}

/** A time of day in the browser's time zone: `14:03:21`. */
export function clock(micros: number): string {
  const date = dateOf(micros);
  return date ? `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}` : DASH;
}

/** The time of day below a chart. Labels less than a minute apart would repeat without seconds. */
export function clockLabel(micros: number, stepSeconds: number): string {
  return stepSeconds < 60 ? clock(micros) : clock(micros).slice(0, 5);
}

/** A day and a time in the browser's time zone: `2026-11-30 14:03:21`. */
export function dateTime(micros: number): string {
  const date = dateOf(micros);
  if (!date) return DASH;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(micros)}`;
}

/** A time in UTC for tooltips: `2026-11-30T14:03:21.000Z`. */
export function isoTime(micros: number): string {
  return dateOf(micros)?.toISOString() ?? DASH;
}

/** The last part of a resource name: `tenants/a/jobs/b` becomes `b`. */
export function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

/** The first digits of an id, which tell ids of one page apart. */
export function shortId(name: string): string {
  const id = lastPart(name);
  return id.length > 13 ? id.slice(0, 8) : id;
}

/** `other_key` becomes `other key`. */
export function words(code: string): string {
  return code.replaceAll('_', ' ');
}

/** The value of a limit, in the unit at the end of its name. */
export function limit(name: string, value: number): string {
  if (name.endsWith('_bytes')) return bytes(value);
  if (name.endsWith('_seconds')) return seconds(value);
  if (name.endsWith('_ms')) return nanos(value * 1e6);
  if (name.endsWith('_percent')) return share(value / 100);
  return count(value);
}

function dateOf(micros: number): Date | null {
  const date = new Date(micros / 1000);
  return Number.isNaN(date.getTime()) ? null : date;
}

function two(value: number): string {
  return value.toString().padStart(2, '0');
}

/** Three digits: `1.23`, `12.3`, `123`. */
function digits(value: number): string {
  const size = Math.abs(value);
  if (size < 9.995) return value.toFixed(2);
  return size < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

function prefixed(value: number): string {
  let index = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 999.5 && index < DECIMAL_UNITS.length - 1) {
    scaled /= 1000;
    index += 1;
  }
  return `${digits(scaled)}${NO_BREAK}${DECIMAL_UNITS[index]}`;
}

/** Two units, as in `2 m 05 s`. The second has two digits unless `width` says otherwise. */
function pair(span: number, large: number, largeUnit: string, small: number, smallUnit: string, width = 2): string {
  const first = Math.floor(span / large);
  const second = Math.floor((span % large) / small)
    .toString()
    .padStart(width, '0');
  return `${first}${NO_BREAK}${largeUnit} ${second}${NO_BREAK}${smallUnit}`;
}
