// An installation with three GPUs and three processors under a changing load.

import type { History, Overview, Pool, Worker } from '../../src/api/contract.js';
import { randomFrom, uuid } from './random.js';
import type { Texts } from './texts.js';

const SAMPLES = 300;
const INTERVAL_SECONDS = 2;
export const SET_2_2 = 'V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128';
export const SET_BOOLEAN = 'PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS';
export const SET_CKKS = 'CKKS_45_60_50_H4096';

export function overview(nowMicros: number, texts: Texts, drained: ReadonlySet<string>): Overview {
  const history = historyAt(nowMicros);
  return {
    now_micros: nowMicros,
    server: {
      version: texts.free('0.9.0'),
      state: 'ready',
      is_owner: true,
      shard: 0,
      started_micros: nowMicros - 3.2 * 86_400e6,
      tls: true,
      database: 'server',
      address: texts.free('fhe-1.example.net:7270'),
    },
    queued: history.queued.at(-1) ?? 0,
    running: history.running.at(-1) ?? 0,
    oldest_queued_seconds: (history.queued.at(-1) ?? 0) > 0 ? 1.4 : null,
    pools: pools(texts),
    workers: workers(texts, drained),
    history,
  };
}

export function emptyOverview(nowMicros: number, texts: Texts): Overview {
  const usual = overview(nowMicros, texts, new Set());
  const history = Object.fromEntries(
    Object.entries(usual.history).map(([name, value]) => [name, Array.isArray(value) ? [] : value]),
  );
  return {
    ...usual,
    queued: 0,
    running: 0,
    oldest_queued_seconds: null,
    pools: [],
    workers: [],
    history: {
      ...(history as unknown as History),
      cuts: { full: [], idle: [], deadline: [], other_key: [], drain: [] },
    },
  };
}

function historyAt(nowMicros: number): History {
  const step = INTERVAL_SECONDS * 1e6;
  const newest = Math.floor(nowMicros / step);
  const micros = Array.from({ length: SAMPLES }, (_, index) => (newest - SAMPLES + 1 + index) * step);
  // The load depends on the time alone, so that a curve moves on instead of changing.
  const load = micros.map(time => loadAt(time / step));
  const noise = (share: number, salt: number) =>
    micros.map(time => 1 + share * (randomFrom(time / step + salt)() - 0.5));
  const [a, b, c, d] = [noise(0.16, 1), noise(0.9, 2), noise(0.3, 3), noise(0.5, 4)] as [
    number[],
    number[],
    number[],
    number[],
  ];
  const each = (value: (load: number, index: number) => number) => load.map(value);
  const waves = each((load, index) => (9 + 62 * load) * a[index]!);
  return {
    interval_seconds: INTERVAL_SECONDS,
    micros,
    queued: each((load, index) => Math.max(0, Math.round((load - 0.52) * 420 * b[index]!))),
    running: each((load, index) => Math.round(4 + 58 * load * c[index]!)),
    jobs_per_second: each((load, index) => 2 + 71 * load * c[index]!),
    failures_per_second: each((_, index) => (b[index]! > 1.4 ? 0.5 : 0)),
    bootstraps_per_second: each((load, index) => 1400 + 58_000 * load * a[index]!),
    wave_fill: each((load, index) => Math.min(1, (0.5 + 0.48 * load) * (0.94 + 0.1 * a[index]! - 0.04))),
    wave_width: each((load, index) => Math.round((190 + 820 * load) * a[index]!)),
    cuts: {
      full: waves.map((rate, index) => rate * (0.35 + 0.5 * load[index]!)),
      idle: waves.map((rate, index) => rate * (0.34 - 0.26 * load[index]!)),
      deadline: waves.map((rate, index) => rate * 0.08 * d[index]!),
      other_key: waves.map((rate, index) => rate * (0.05 + 0.1 * load[index]!) * c[index]!),
      drain: waves.map((rate, index) => (index > 230 && index < 246 ? rate * 0.06 : 0)),
    },
    p50_seconds: each((load, index) => (0.021 + 0.034 * load * load) * d[index]!),
    p99_seconds: each((load, index) => (0.09 + 0.42 * load * load * load) * b[index]!),
  };
}

function loadAt(step: number): number {
  const slow = 0.56 + 0.2 * Math.sin(step / 41) + 0.13 * Math.sin(step / 17 + 1) + 0.07 * Math.sin(step / 6.3 + 2);
  return Math.min(1, Math.max(0.04, slow));
}

function pools(texts: Texts): Pool[] {
  return [
    {
      kind: texts.free('gpu'),
      workers: 3,
      draining: 1,
      jobs: 41,
      backlog_seconds: 3.4,
      resident_keys: 57,
      resident_bytes: 96.4e9,
    },
    {
      kind: texts.free('cpu'),
      workers: 2,
      draining: 0,
      jobs: 9,
      backlog_seconds: 38,
      resident_keys: 21,
      resident_bytes: 4.7e9,
    },
    {
      kind: texts.free('embedded'),
      workers: 1,
      draining: 0,
      jobs: 1,
      backlog_seconds: null,
      resident_keys: 4,
      resident_bytes: 412e6,
    },
  ];
}

export function workerName(index: number): string {
  return `workers/${uuid(index + 100)}`;
}

function workers(texts: Texts, drained: ReadonlySet<string>): Worker[] {
  return Array.from({ length: 6 }, (_, index): Worker => {
    const isGpu = index < 3;
    const isDrained = drained.has(workerName(index));
    return {
      name: workerName(index),
      display_name: texts.worker(index),
      pool: texts.free(isGpu ? 'gpu' : index < 5 ? 'cpu' : 'embedded'),
      class: texts.free(isGpu ? 'cuda-sm90' : 'x86-avx512'),
      state: index === 4 ? 'disconnected' : isDrained ? 'draining' : 'ready',
      is_drained: isDrained,
      jobs: index === 4 ? 0 : isGpu ? 13 + index : 4 - (index % 3),
      resident_keys: isGpu ? 18 + index : 9 - index,
      resident_bytes: isGpu ? 31.2e9 + index * 1.3e9 : 1.8e9 + index * 91e6,
      parameter_sets: isGpu ? [texts.free(SET_2_2), SET_BOOLEAN] : [texts.free(SET_2_2), SET_BOOLEAN, SET_CKKS],
    };
  });
}
