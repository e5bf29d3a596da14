// Usage of tenants: totals for the table, and a stack of days for the chart.

import type { DayUsage } from '../api/contract.js';

const MILLIS_PER_DAY = 86_400_000;
const MICROS_PER_DAY = MILLIS_PER_DAY * 1000;

export type Totals = Omit<DayUsage, 'tenant' | 'day'>;

export const NO_USE: Totals = {
  jobs: 0,
  unsuccessful_jobs: 0,
  bootstraps: 0,
  device_seconds: 0,
  received_bytes: 0,
  stored_byte_seconds: 0,
  key_seconds: 0,
};

/** The sum of all days of each tenant. */
export function totalsByTenant(days: readonly DayUsage[]): Map<string, Totals> {
  const totals = new Map<string, Totals>();
  for (const { tenant, day: _, ...use } of days) {
    const sum = { ...(totals.get(tenant) ?? NO_USE) };
    for (const key of Object.keys(NO_USE) as (keyof Totals)[]) sum[key] += use[key];
    totals.set(tenant, sum);
  }
  return totals;
}

export interface DayStack {
  /** Starts of the days in UTC, also of days without use. */
  micros: number[];
  /** The tenants with the most bootstraps first, then all others together, for which `tenant` is null. */
  layers: { tenant: string | null; bootstraps: number[] }[];
}

/** Bootstraps by day and tenant, for the `dayCount` days that end with the day of `nowMicros`. */
export function dayStack(days: readonly DayUsage[], nowMicros: number, dayCount: number, tenantsMax: number): DayStack {
  const today = Math.floor(nowMicros / MICROS_PER_DAY);
  const first = today - dayCount + 1;
  const micros = Array.from({ length: dayCount }, (_, index) => (first + index) * MICROS_PER_DAY);

  const ranked = [...totalsByTenant(days)].sort(([, a], [, b]) => b.bootstraps - a.bootstraps).map(([name]) => name);
  const shown = ranked.length <= tenantsMax ? ranked : ranked.slice(0, tenantsMax - 1);
  const layers: DayStack['layers'] = shown.map(tenant => ({ tenant, bootstraps: micros.map(() => 0) }));
  if (shown.length < ranked.length) layers.push({ tenant: null, bootstraps: micros.map(() => 0) });

  const places = new Map(shown.map((tenant, index) => [tenant, index]));
  for (const { tenant, day, bootstraps } of days) {
    const index = Date.parse(`${day}T00:00:00Z`) / MILLIS_PER_DAY - first;
    const layer = layers[places.get(tenant) ?? layers.length - 1];
    const before = layer?.bootstraps[index];
    // A day outside the window has no place.
    if (layer && before !== undefined) layer.bootstraps[index] = before + bootstraps;
  }
  return { micros, layers };
}
