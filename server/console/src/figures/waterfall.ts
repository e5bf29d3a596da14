// Where the bars of a job's waterfall lie. The stages of a latency record partition the wall time,
// so each stage begins where the sum of the earlier ones ends.

import type { Stage } from '../api/contract.js';

export interface Bar {
  name: string;
  nanos: number;
  /** Where the bar begins and how long it is, as shares of the whole. */
  start: number;
  share: number;
}

/** The bars in the order of the stages. Stages without time keep their place, with a bar of no length. */
export function bars(stages: readonly Stage[], wallNanos: number): Bar[] {
  const sum = stages.reduce((total, { nanos }) => total + nonNegative(nanos), 0);
  // A record whose stages exceed the wall time would run over the right edge.
  const whole = Math.max(sum, nonNegative(wallNanos));
  let begun = 0;
  return stages.map(({ name, nanos }) => {
    const length = nonNegative(nanos);
    const start = whole === 0 ? 0 : begun / whole;
    begun += length;
    return { name, nanos: length, start, share: whole === 0 ? 0 : length / whole };
  });
}

/** At most `countMax` round times from 0 to the wall time, for the lines behind the bars. */
export function ticks(wallNanos: number, countMax: number): number[] {
  if (!(wallNanos > 0) || !Number.isFinite(wallNanos)) return [0];
  const least = wallNanos / countMax;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= least) ?? least;
  return Array.from({ length: Math.floor(wallNanos / step) + 1 }, (_, index) => index * step);
}

function nonNegative(value: number): number {
  return Number.isFinite(value) && value > 0 ? value : 0;
}
