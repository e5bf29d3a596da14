// The JSON of the server's console API, below /console/api/. The server's side is
// server/src/console. Times of day are microseconds since 1970 (`_micros`), spans of the latency
// record nanoseconds (`_nanos`), and all other spans seconds (`_seconds`).
//
// Every string may hold text that a tenant or a worker chose. Show strings as text, never as HTML.

/** The body of an answer with status 4xx or 5xx. With 401, the console shows the login page. */
export interface Refusal {
  error: { reason: string; message: string };
}

/** Answers POST login and GET session. */
export interface Session {
  actor: string;
  can_write: boolean;
  expires_micros: number;
}

/** Answers POST login. `csrf` goes into X-CSRF-Token on every call but login. */
export interface SignedIn extends Session {
  csrf: string;
}

/** GET overview. */
export interface Overview {
  now_micros: number;
  server: Server;
  queued: number;
  running: number;
  oldest_queued_seconds: number | null;
  pools: Pool[];
  workers: Worker[];
  history: History;
}

export interface Server {
  version: string;
  state: 'starting' | 'ready' | 'draining';
  is_owner: boolean;
  shard: number;
  started_micros: number;
  tls: boolean;
  database: 'file' | 'server';
  address: string;
}

export interface Pool {
  kind: string;
  workers: number;
  draining: number;
  jobs: number;
  /** Null if the configuration does not declare the pool. */
  backlog_seconds: number | null;
  resident_keys: number;
  resident_bytes: number;
}

export interface Worker {
  /** `workers/{uuid}` */
  name: string;
  display_name: string;
  pool: string;
  class: string;
  state: 'ready' | 'draining' | 'disconnected';
  /** An operator drained the worker, who can also resume it. */
  is_drained: boolean;
  jobs: number;
  resident_keys: number;
  resident_bytes: number;
  parameter_sets: string[];
}

/** Samples every `interval_seconds`, the oldest first. All lists have the length of `micros`, at most 300. */
export interface History {
  interval_seconds: number;
  micros: number[];
  queued: number[];
  running: number[];
  jobs_per_second: number[];
  failures_per_second: number[];
  bootstraps_per_second: number[];
  /** Mean fill, 0 to 1, of the waves of the jobs that ended in the interval. */
  wave_fill: (number | null)[];
  wave_width: (number | null)[];
  /** Waves per second by the reason why each was cut. */
  cuts: Record<Cut, number[]>;
  /** Wall time of the jobs that ended in the interval. */
  p50_seconds: (number | null)[];
  p99_seconds: (number | null)[];
}

/** Reasons why a wave was not made wider, the best first. */
export const CUTS = ['full', 'idle', 'deadline', 'other_key', 'drain'] as const;
export type Cut = (typeof CUTS)[number];

/** GET jobs and GET keys and GET audit answer pages. `next` is the position of the next page, or null. */
export interface JobPage {
  jobs: Job[];
  next: string | null;
}

export type JobState = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';

/** An entry of GET jobs, without `latency`, or the answer of GET job. */
export interface Job {
  /** `tenants/{tenant}/jobs/{uuid}` */
  name: string;
  tenant: string;
  state: JobState;
  stage: 'fetching' | 'loading_key' | 'waiting' | 'computing' | 'committing' | null;
  operation: string;
  parameter_set: string;
  rows: number;
  rows_done: number;
  bootstraps: number;
  priority: number;
  attempts: number;
  created_micros: number;
  ended_micros: number | null;
  deadline_micros: number;
  error: { reason: string; message: string } | null;
  key: string;
  program: string;
  wall_nanos: number | null;
  latency: Latency | null;
}

export interface Latency {
  /** The eleven stages in the order of src/figures/stages.ts, which partition `wall_nanos`. */
  stages: Stage[];
  wall_nanos: number;
  device_nanos: number;
  bootstraps: number;
  wave_count: number;
  mean_wave_fill: number;
  companion_waves: number;
  /** The first waves, at most 64. */
  waves: Wave[];
  cuts: { cut: string; waves: number }[];
  /** Operations of a job on vectors. */
  operations: { name: string; count: number; nanos: number }[];
  worker: string;
  device: string;
  attempts: number;
}

export interface Stage {
  name: string;
  nanos: number;
}

export interface Wave {
  width: number;
  own_width: number;
  compute_nanos: number;
  cut: string;
}

export interface KeyPage {
  keys: Key[];
  next: string | null;
}

export interface Key {
  tenant: string;
  key_id: string;
  bytes: number;
  parts: number;
  parameter_sets: string[];
  created_micros: number;
  is_deleting: boolean;
  resident_workers: string[];
}

/** GET tenants: the first 1000. */
export interface Tenants {
  tenants: Tenant[];
}

export interface Tenant {
  name: string;
  shard: number;
  created_micros: number;
  revoked_micros: number | null;
  deleting_micros: number | null;
  stored_bytes: number;
  keys: number;
  limits: { name: string; value: number }[];
}

/** GET usage. Days without use are absent. */
export interface Usage {
  days: DayUsage[];
}

export interface DayUsage {
  tenant: string;
  /** A day in UTC, as in `2026-11-30`. */
  day: string;
  jobs: number;
  unsuccessful_jobs: number;
  bootstraps: number;
  device_seconds: number;
  received_bytes: number;
  stored_byte_seconds: number;
  key_seconds: number;
}

/** GET errors: since the start of the server, the most frequent first. */
export interface Reasons {
  reasons: Reason[];
}

export interface Reason {
  reason: string;
  calls: number;
  jobs: number;
  advice: string;
}

export interface AuditPage {
  entries: Entry[];
  next: string | null;
}

export interface Entry {
  id: string;
  at_micros: number;
  actor: string;
  act: string;
  subject: string;
  detail: string;
  refusals: number;
}
