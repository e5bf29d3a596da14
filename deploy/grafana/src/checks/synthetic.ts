// A test for promtool: each query of each panel has an answer where every documented metric has
// series. The test shows that expressions agree with the labels of the metrics, also for devices that
// the machine lacks, such as GPUs.

import { ALL } from '../variables.js';
import { parse, substituted } from './expression.js';
import { allExpressions, type Dashboard } from './json.js';
import { metricOf, SCRAPED, type Metric } from './metrics.js';

/** Values of labels that matchers of the boards ask for. Other labels have one value. */
const VALUES: Record<string, string[]> = {
  code: ['OK', 'INTERNAL', 'DEADLINE_EXCEEDED'],
  job: ['cloakwork'],
  instance: ['a:1'],
  le: ['0.5', '1', '30', '+Inf'],
  method: ['/cloakwork.v1.JobService/GetJob'],
  reason: ['', 'QUEUE_FULL', 'lost'],
  result: ['hit', 'miss'],
  stage: ['queue', 'key_load', 'blind_rotate', 'store'],
  state: ['succeeded', 'failed', 'ready'],
  tenant: ['a', '_other'],
};

/** Values that Grafana would put in place of variables. */
const CHOSEN = {
  job: ALL,
  instance: ALL,
  pool: ALL,
  parameter_set: ALL,
  __range: '5m',
  __rate_interval: '1m',
  __interval: '15s',
};

/** The file, as JSON, which is YAML as well. */
export function tests(boards: Dashboard[], metrics: Map<string, Metric>): string {
  const expressions = boards.flatMap(board =>
    allExpressions(board).map(({ expr }) => ({ expr: substituted(expr, CHOSEN) })),
  );
  const series = new Map<string, Set<string>>();
  for (const { selectors, grouped } of expressions.map(({ expr }) => parse(expr))) {
    for (const { metric, labels } of selectors) {
      const known = metricOf(metric, metrics);
      if (!known) continue;
      const own = metrics.get(known.name) as Metric;
      const used = series.get(metric) ?? new Set([...SCRAPED, ...(known.part === 'bucket' ? ['le'] : [])]);
      // Where docs/ have no list of labels, the labels in use stand for it.
      for (const label of own.kind ? own.labels : [...labels, ...grouped].filter(label => own.labels.has(label)))
        used.add(label);
      series.set(metric, used);
    }
  }
  const input_series = [...series].flatMap(([metric, labels]) =>
    combinations([...labels]).map(set => ({ series: `${metric}{${set}}`, values: values(metric) })),
  );
  const promql_expr_test = expressions.map(({ expr }) => ({
    expr: `count(${expr}) > bool 0`,
    eval_time: '10m',
    exp_samples: [{ labels: '{}', value: 1 }],
  }));
  const tests = [{ interval: '15s', input_series, promql_expr_test }];
  return `${JSON.stringify({ rule_files: [], evaluation_interval: '15s', tests }, null, 1)}\n`;
}

/** Courses of gauges whose change matters. The server owns a shard since less than a minute. */
const COURSES: Record<string, string> = { cloakwork_owner: '0x36 1x23' };

function values(metric: string): string {
  return COURSES[metric] ?? (/_(total|bucket|sum|count)$/.test(metric) ? '0+1x60' : '1x60');
}

/** Every combination of the values of labels. */
function combinations(labels: string[]): string[] {
  return labels.reduce<string[]>(
    (sets, label) => {
      const options = (VALUES[label] ?? ['x']).map(value => `${label}="${value}"`);
      return sets.flatMap(set => options.map(option => (set ? `${set},${option}` : option)));
    },
    [''],
  );
}
