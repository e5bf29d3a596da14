// Asks Prometheus for the data of panels.

import { substituted } from './checks/expression.js';
import type { Query } from './checks/json.js';
import { ALL } from './variables.js';

/** A value of a series that is absent at a time is `null`. */
export interface Series {
  name: string;
  labels: Record<string, string>;
  values: (number | null)[];
}

/** A single observation whose trace is known. */
export interface Exemplar {
  time: number;
  value: number;
}

export interface Answer {
  times: number[];
  series: Series[];
  exemplars?: Exemplar[];
}

/** The times that a board shows, in seconds of Unix time. */
export interface Times {
  from: number;
  to: number;
  /** Distance of two values. */
  step: number;
  /** Distance of two scrapes. */
  scrape: number;
}

/** Values of the variables, as Grafana sets them where all filters have the choice `All`. */
export function values(times: Times): Record<string, string> {
  const interval = Math.max(times.step + times.scrape, 4 * times.scrape);
  const all = Object.fromEntries(['job', 'instance', 'pool', 'parameter_set'].map(name => [name, ALL]));
  return {
    ...all,
    __range: `${times.to - times.from}s`,
    __rate_interval: `${interval}s`,
    __interval: `${times.step}s`,
  };
}

interface Reply {
  status: string;
  error?: string;
  data?: { result: { metric: Record<string, string>; values?: [number, string][]; value?: [number, string] }[] };
}

async function ask(prometheus: string, path: string, parameters: Record<string, string>): Promise<Reply> {
  const response = await fetch(`${prometheus}/api/v1/${path}`, {
    method: 'POST',
    body: new URLSearchParams(parameters),
  });
  return (await response.json()) as Reply;
}

/** The series of a query over time. */
export async function range(prometheus: string, query: Query, times: Times): Promise<Answer> {
  const reply = await ask(prometheus, 'query_range', {
    query: substituted(query.expr, values(times)),
    start: `${times.from}`,
    end: `${times.to}`,
    step: `${times.step}`,
  });
  if (reply.status !== 'success' || !reply.data) throw new Error(reply.error ?? 'no answer');
  const all = Array.from(
    { length: Math.floor((times.to - times.from) / times.step) + 1 },
    (_, index) => times.from + index * times.step,
  );
  const series = reply.data.result.map(({ metric, values = [] }) => {
    const at = new Map(values.map(([time, value]) => [Math.round(time - times.from), Number(value)]));
    const finite = (time: number) => {
      const value = at.get(Math.round(time - times.from));
      return value !== undefined && Number.isFinite(value) ? value : null;
    };
    return { name: named(query.legendFormat, metric), labels: metric, values: all.map(finite) };
  });
  return { times: all, series };
}

/** The newest value of each series of a query, in the order of the answer. */
export async function newest(prometheus: string, query: Query, times: Times): Promise<Answer> {
  const reply = await ask(prometheus, 'query', { query: substituted(query.expr, values(times)), time: `${times.to}` });
  if (reply.status !== 'success' || !reply.data) throw new Error(reply.error ?? 'no answer');
  const series = reply.data.result.map(({ metric, value }) => {
    const number = Number(value?.[1]);
    return {
      name: named(query.legendFormat, metric),
      labels: metric,
      values: [Number.isFinite(number) ? number : null],
    };
  });
  return { times: [times.to], series };
}

/** The exemplars behind a query. */
export async function exemplars(prometheus: string, query: Query, times: Times): Promise<Exemplar[]> {
  const reply = (await ask(prometheus, 'query_exemplars', {
    query: substituted(query.expr, values(times)),
    start: `${times.from}`,
    end: `${times.to}`,
  })) as unknown as { data?: { exemplars: { value: string; timestamp: number }[] }[] };
  const found = (reply.data ?? []).flatMap(series => series.exemplars);
  return found.map(({ value, timestamp }) => ({ time: timestamp, value: Number(value) }));
}

/** Each `{{label}}` of a legend is replaced by the label's value. */
function named(legend: string | undefined, labels: Record<string, string>): string {
  if (!legend) return Object.values(labels).join(', ') || 'value';
  return legend.replace(/\{\{(\w+)\}\}/g, (_, label: string) => labels[label] || `no ${label}`);
}
