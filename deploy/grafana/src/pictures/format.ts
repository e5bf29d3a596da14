// Texts of values, in the units that the boards use.

const DECIMAL: [number, string][] = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
  [1, ''],
  [1e-3, 'm'],
  [1e-6, 'µ'],
];
const BINARY: [number, string][] = [
  [1024 ** 4, 'TiB'],
  [1024 ** 3, 'GiB'],
  [1024 ** 2, 'MiB'],
  [1024, 'KiB'],
  [1, 'B'],
];
const TIME: [number, string][] = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
  [1, 's'],
  [1e-3, 'ms'],
  [1e-6, 'µs'],
];

/** A value and its unit, which a tile draws smaller. */
export interface Text {
  number: string;
  unit: string;
}

export function format(value: number | null, unit: string, decimals?: number): Text {
  if (value === null) return { number: '–', unit: '' };
  if (unit === 's') return value === 0 ? { number: '0', unit: 's' } : scaled(value, TIME, '', decimals);
  if (unit === 'bytes') return scaled(value, BINARY, '', decimals);
  if (unit === 'binBps') return scaled(value, BINARY, '/s', decimals);
  if (unit === 'percentunit') return { number: digits(value * 100, decimals), unit: '%' };
  if (unit === 'short') return scaled(value, DECIMAL.slice(0, 5), '', decimals);
  if (unit === 'watt') return scaled(value, DECIMAL.slice(0, 5), 'W', decimals);
  if (unit === 'hertz') return scaled(value, DECIMAL.slice(0, 5), 'Hz', decimals);
  if (unit === 'joule') return scaled(value, DECIMAL, 'J', decimals);
  if (unit === 'celsius') return { number: digits(value, decimals), unit: '°C' };
  if (unit.startsWith('suffix:')) return { number: digits(value, decimals), unit: unit.slice('suffix:'.length) };
  if (unit.startsWith('count:')) return scaled(value, DECIMAL.slice(0, 5), unit.slice('count:'.length), decimals);
  return { number: digits(value, decimals), unit: '' };
}

/** A value and its unit in one text. */
export function label(value: number | null, unit: string, decimals?: number): string {
  const text = format(value, unit, decimals);
  return text.unit && !/^[%×]/.test(text.unit) ? `${text.number} ${text.unit}` : `${text.number}${text.unit}`;
}

function scaled(value: number, steps: [number, string][], unit: string, decimals?: number): Text {
  const size = Math.abs(value);
  const [factor, prefix] = steps.find(([factor]) => size >= factor * 0.9995) ??
    steps.at(size === 0 ? steps.findIndex(([factor]) => factor === 1) : -1) ?? [1, ''];
  const small = factor === 1 ? decimals : undefined;
  return { number: digits(value / factor, small), unit: `${prefix}${unit}` };
}

/** Three significant digits, or a fixed number of decimals. */
function digits(value: number, decimals?: number): string {
  const size = Math.abs(value);
  const fixed = decimals ?? (size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
  const text = value.toFixed(fixed);
  return decimals === undefined && text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Hours and minutes of a time, and seconds where the picture shows a short time. */
export function clock(seconds: number, precise = false): string {
  return new Date(seconds * 1000).toISOString().slice(11, precise ? 19 : 16);
}
