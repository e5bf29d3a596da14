// Objectives of the service, as expressions. deploy/prometheus/recording.yaml has the same
// definitions for the alerts. The boards do not read those rules, so that they work without them
// and follow the variables.

import { increase, orZero, rate, series, sum } from './promql.js';

/** Calls of clients. Calls of workers and health checks end in other ways. */
const CLIENTS = ['method=~"/cloakwork[.]v1[.].+"', 'method!~"/cloakwork[.]v1[.]WorkerService/.+"'];
/** Calls that last as long as a job or as the caller's connection. */
const LONG = 'method!~".+/(RunJob|WatchJob|Write|Put|Read|Get)"';
/** Codes that are the server's fault. */
const FAULTS = 'DATA_LOSS|INTERNAL|UNAVAILABLE|UNKNOWN';
/** Reasons that concern all tenants, under a code that has other reasons too. */
const FULL = 'reason=~"QUEUE_FULL|STORAGE_FULL"';

/** Calls for whose failure the service is at fault, counted by `how` over a window. */
function failed(how: 'rate' | 'increase', window: string): string {
  const counted = (counter: string) => `${how}(${counter}[${window}])`;
  const faults = counted(series('grpc_calls_total', [...CLIENTS, `code=~"${FAULTS}"`]));
  const late = counted(series('grpc_calls_total', [...CLIENTS, LONG, 'code="DEADLINE_EXCEEDED"']));
  return orZero(sum(`${faults} or ${late} or ${counted(series('rejected_total', [FULL]))}`));
}

/** A share of events that must be good, over 30 days. */
export interface Objective {
  share: number;
  /** Share of good events in a window. */
  good(window: string): string;
  /** How many times faster than allowed the error budget is used. */
  burn(window: string): string;
  /** Share of the error budget that is left. */
  left: string;
}

function objective(share: number, bad: (window: string) => string, all: (window: string) => string): Objective {
  const allowed = Number((1 - share).toPrecision(6));
  const ratio = (window: string) => `${bad(window)} / ${all(window)}`;
  return {
    share,
    good: window => `1 - ${ratio(window)}`,
    burn: window => `${ratio(window)} / ${allowed}`,
    left: `1 - ${ratio('30d')} / ${allowed}`,
  };
}

/** Calls that the server answers, or refuses for a reason of the caller. */
export const AVAILABILITY = objective(
  0.999,
  window => failed('increase', window),
  window => increase(series('grpc_calls_total', CLIENTS), [], window),
);

/** Seconds within which a job must have a worker: a bound of a bucket. */
export const WAIT_SECONDS = 30;

const WAITED = ['pool', 'parameter_set'] as ['pool', 'parameter_set'];

/**
 * Jobs that get a worker in time. The rest of a job's time is the size of its program. Prometheus
 * writes the bound as `30` or `30.0`, depending on the format of the scrape.
 */
export const LATENCY = objective(
  0.95,
  window => {
    const soon = series('job_queue_seconds_bucket', [`le=~"${WAIT_SECONDS}|${WAIT_SECONDS}[.]0"`], WAITED);
    const all = increase(series('job_queue_seconds_count', [], WAITED), [], window);
    return `(${all} - ${increase(soon, [], window)})`;
  },
  window => increase(series('job_queue_seconds_count', [], WAITED), [], window),
);

/** Calls of clients per second, by the kind of their end. */
export const CALLS = {
  answered: rate(series('grpc_calls_total', [...CLIENTS, 'code="OK"'])),
  refused: `${rate(series('grpc_calls_total', [...CLIENTS, 'code!="OK"']))} - ${failed('rate', '$__rate_interval')}`,
  failed: failed('rate', '$__rate_interval'),
};
