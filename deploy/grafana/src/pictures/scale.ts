// Scales of axes, and their ticks.

export interface Scale {
  /** The place of a value, between `low` and `high` of the scale's pixels. */
  at(value: number): number;
  ticks: number[];
  min: number;
  max: number;
}

/** Steps of ticks for each unit: powers of ten, powers of two, or parts of an hour. */
function stepOf(span: number, count: number, unit: string): number {
  const raw = span / count;
  if (unit === 's' && raw >= 1) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];
    return steps.find(step => step >= raw) ?? 86_400 * Math.ceil(raw / 86_400);
  }
  const base = unit === 'bytes' || unit === 'binBps' ? 2 ** (10 * Math.floor(Math.log2(Math.max(raw, 1)) / 10)) : 1;
  const power = 10 ** Math.floor(Math.log10(raw / base));
  const factor = [1, 2, 2.5, 5, 10].find(factor => factor * power >= (raw / base) * 0.999) ?? 10;
  return factor * power * base;
}

export interface Wanted {
  min: number;
  max: number;
  low: number;
  high: number;
  count: number;
  unit: string;
  /** The ends of the scale are fixed, so that it is not extended to the next tick. */
  fixed?: boolean;
}

export function linear({ min, max, low, high, count, unit, fixed }: Wanted): Scale {
  const top = max > min ? max : min + 1;
  const step = stepOf(top - min, count, unit);
  const end = fixed ? top : Math.ceil(top / step - 1e-9) * step;
  const start = fixed ? min : Math.floor(min / step + 1e-9) * step;
  const ticks: number[] = [];
  for (let tick = Math.ceil(start / step - 1e-9) * step; tick <= end + step * 1e-6; tick += step)
    ticks.push(Number(tick.toPrecision(12)));
  return { min: start, max: end, ticks, at: value => low + ((value - start) / (end - start)) * (high - low) };
}

export function logarithmic({ min, max, low, high }: Wanted): Scale {
  const first = Math.floor(Math.log10(min));
  const last = Math.max(first + 1, Math.ceil(Math.log10(max) - 1e-9));
  const ticks = Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index));
  const at = (value: number) =>
    low + ((Math.log10(Math.max(value, 10 ** first)) - first) / (last - first)) * (high - low);
  return { min: 10 ** first, max: 10 ** last, ticks, at };
}

/** Ticks of a time axis: at full minutes or hours. */
export function instants(from: number, to: number, count: number): number[] {
  const step = stepOf(to - from, count, 's');
  const ticks: number[] = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) ticks.push(tick);
  return ticks;
}
