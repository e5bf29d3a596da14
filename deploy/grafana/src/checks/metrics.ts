// Metrics and their labels, as the tables of docs/ list them.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Metric {
  /** Absent where the table has no such column. */
  kind?: string;
  labels: Set<string>;
}

/** Series that Prometheus makes for the alerts of deploy/prometheus. */
export const ALERTS = { name: 'ALERTS', labels: ['alertname', 'alertstate', 'severity'] };

/** Labels that Prometheus itself adds to each series. */
export const SCRAPED = ['job', 'instance'];

/** Every metric with a row in a table of docs/, by name. A table of metrics begins with the column `metric`. */
export function documented(docs: string): Map<string, Metric> {
  const metrics = new Map<string, Metric>();
  for (const name of readdirSync(docs).sort()) {
    if (!name.endsWith('.md')) continue;
    const page = readFileSync(join(docs, name), 'utf8');
    for (const table of tables(page)) {
      const [heading = [], , ...rows] = table;
      if (heading[0] !== 'metric') continue;
      for (const row of rows) add(metrics, heading, row, page);
    }
  }
  return metrics;
}

function add(metrics: Map<string, Metric>, heading: string[], row: string[], page: string): void {
  const cell = (title: string) => row[heading.indexOf(title)];
  const labels = cell('labels');
  // Where labels have no column, the prose of the page names them.
  const metric: Metric = { labels: new Set(quoted(labels ?? page)) };
  const kind = cell('kind');
  if (kind !== undefined) metric.kind = kind;
  for (const name of quoted(row[0] ?? '')) metrics.set(name, metric);
}

/** The cells of each table of a page. */
function tables(page: string): string[][][] {
  const found: string[][][] = [];
  let open = false;
  for (const line of page.split('\n')) {
    const row = line.startsWith('|');
    if (row && !open) found.push([]);
    open = row;
    if (row)
      found.at(-1)?.push(
        line
          .split('|')
          .slice(1, -1)
          .map(cell => cell.trim()),
      );
  }
  return found;
}

/** Words in backquotes. */
function quoted(text: string): string[] {
  return [...text.matchAll(/`([a-z_]+)`/g)].map(match => match[1] ?? '');
}

/** The documented metric of a series, and the part of a histogram that the series is. */
export function metricOf(series: string, metrics: Map<string, Metric>): { name: string; part?: string } | undefined {
  if (metrics.has(series)) return { name: series };
  const [, name, part] = /^(.+)_(bucket|sum|count)$/.exec(series) ?? [];
  return name !== undefined && part !== undefined && metrics.has(name) ? { name, part } : undefined;
}
