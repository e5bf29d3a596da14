// Builds expressions of PromQL. Each selector has the variables of the boards in it, so that no
// panel ignores them.

/** Labels that the boards filter by. `job` and `instance` come from Prometheus. */
export type Filter = 'pool' | 'parameter_set';

/** Range of rates: at least four scrapes, and at least the distance of two points of a graph. */
export const RATE = '$__rate_interval';
/** The whole time that the board shows. */
export const RANGE = '$__range';

/** Series of a metric, limited by the variables `job` and `instance`, and by further matchers. */
export function series(metric: string, matchers: string[] = [], filters: Filter[] = []): string {
  const all = ['job=~"$job"', 'instance=~"$instance"', ...filters.map(label => `${label}=~"$${label}"`), ...matchers];
  return `cloakwork_${metric}{${all.join(',')}}`;
}

/** Increase per second of a counter, summed over all labels except `labels`. */
export function rate(counter: string, labels: string[] = [], window: string = RATE): string {
  return sum(`rate(${counter}[${window}])`, labels);
}

/** Increase of a counter over a time, summed over all labels except `labels`. */
export function increase(counter: string, labels: string[] = [], window: string = RANGE): string {
  return sum(`increase(${counter}[${window}])`, labels);
}

/**
 * Events of a counter in a time, with the first one. A counter has no series before its first event,
 * and `increase` misses the sample with which a series begins. So a series that did not exist ten
 * minutes before the time counts with its whole value.
 */
export function events(counter: string, labels: string[], window: string): string {
  return sum(
    `(${counter} unless last_over_time(${counter}[10m] offset ${window})) or increase(${counter}[${window}])`,
    labels,
  );
}

export function sum(vector: string, labels: string[] = []): string {
  return labels.length === 0 ? `sum(${vector})` : `sum by (${labels.join(', ')}) (${vector})`;
}

export function max(vector: string, labels: string[] = []): string {
  return labels.length === 0 ? `max(${vector})` : `max by (${labels.join(', ')}) (${vector})`;
}

export function min(vector: string, labels: string[] = []): string {
  return labels.length === 0 ? `min(${vector})` : `min by (${labels.join(', ')}) (${vector})`;
}

/** Zero where a vector has no series, because counters appear only with their first event. */
export function orZero(vector: string): string {
  return `(${vector} or vector(0))`;
}

/** A quantile of a histogram. `histogram` selects the metric without its suffix `_bucket`. */
export function quantile(q: number, histogram: Histogram, labels: string[] = [], window: string = RATE): string {
  return `histogram_quantile(${q}, ${buckets(histogram, labels, window)})`;
}

/** Mean of the values that a histogram received. */
export function mean(histogram: Histogram, labels: string[] = []): string {
  const part = (suffix: string) =>
    rate(series(`${histogram.metric}_${suffix}`, histogram.matchers, histogram.filters), labels);
  return `${part('sum')} / ${part('count')}`;
}

/** Values per second in each bucket of a histogram. */
export function buckets(histogram: Histogram, labels: string[] = [], window: string = RATE): string {
  return rate(series(`${histogram.metric}_bucket`, histogram.matchers, histogram.filters), [...labels, 'le'], window);
}

export interface Histogram {
  metric: string;
  matchers?: string[];
  filters?: Filter[];
}

/** The short name of a method: `JobService/RunJob` for `/cloakwork.v1.JobService/RunJob`. */
export function shortMethod(vector: string): string {
  return `label_replace(${vector}, "method", "$1", "method", "/(?:cloakwork.v1.|grpc.)?(.+)")`;
}
