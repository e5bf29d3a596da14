// Jobs in all states: on blocks, on booleans and on vectors.

import type { Job, JobState, Latency } from '../../src/api/contract.js';
import { SET_2_2, SET_BOOLEAN, SET_CKKS, workerName } from './overview.js';
import { randomFrom, uuid } from './random.js';
import type { Texts } from './texts.js';

export const JOB_COUNT = 130;
/** Jobs whose pages show something special. */
export const RUNNING_JOB = 1;
export const FAILED_JOB = 4;
export const VECTOR_JOB = 7;
export const BLOCK_JOB = 5;

const FAILURES = [
  ['DEADLINE_EXCEEDED', 'the deadline passed 210 ms before the last of 512 rows'],
  ['WORKER_OUT_OF_MEMORY', 'the worker has 31 GiB for values, and one row takes 44 GiB'],
  ['KEY_QUARANTINED', 'part 2 of the key differs from its digest'],
] as const;

export function jobs(nowMicros: number, texts: Texts): Job[] {
  return Array.from({ length: JOB_COUNT }, (_, index) => job(index, nowMicros, texts));
}

function job(index: number, nowMicros: number, texts: Texts): Job {
  const random = randomFrom(index + 11);
  const state = stateOf(index);
  const isVector = index % 9 === VECTOR_JOB;
  const tenant = texts.tenant(Math.floor(random() * random() * 9));
  const rows = isVector ? 1 : 2 ** Math.floor(random() * 10);
  const created = nowMicros - (index * index * 0.35 + index * 1.6 + 0.4) * 1e6;
  const wall = Math.round((isVector ? 4.2e9 : 3e6 + 9e5 * rows) * (0.6 + random()));
  const hasEnded = state !== 'queued' && state !== 'running';
  const [reason, message] = FAILURES[index % FAILURES.length] ?? FAILURES[0];
  const bootstraps = isVector ? 2 : rows * Math.ceil(1 + random() * 40);
  return {
    name: `tenants/${tenant}/jobs/${uuid(index)}`,
    tenant,
    state,
    stage: state === 'running' ? (index === 0 ? 'loading_key' : 'computing') : null,
    operation: texts.free(isVector ? 'polynomial' : (['eval', 'pbs', 'gate NAND', 'dot'][index % 4] ?? 'eval')),
    parameter_set: isVector ? SET_CKKS : index % 4 === 2 ? SET_BOOLEAN : texts.free(SET_2_2),
    rows,
    rows_done: state === 'running' ? Math.floor(rows * 0.62) : hasEnded ? rows : 0,
    bootstraps,
    priority: index % 5 === 0 ? 1 : 0,
    attempts: state === 'queued' ? 0 : 1,
    created_micros: created,
    ended_micros: hasEnded ? created + wall / 1000 : null,
    deadline_micros: created + 600e6,
    error: state === 'failed' ? { reason, message: texts.free(message) } : null,
    key: texts.free(`tenants/${tenant}/keys/${uuid(index % 13).replaceAll('-', '')}`),
    program: `programs/${uuid(index % 7).replaceAll('-', '')}`,
    wall_nanos: hasEnded ? wall : null,
    latency: state === 'succeeded' ? latency(index, wall, bootstraps, isVector, texts) : null,
  };
}

function stateOf(index: number): JobState {
  if (index < 3) return index === 2 ? 'queued' : 'running';
  if (index % 17 === FAILED_JOB) return 'failed';
  return index % 23 === 9 ? 'cancelled' : 'succeeded';
}

/** Shares of the wall time, for jobs on blocks and on vectors. */
const SHARES: readonly (readonly [string, number, number])[] = [
  ['validate', 0.012, 0.001],
  ['queue', 0.064, 0.03],
  ['dispatch', 0.021, 0.002],
  ['key_load', 0.236, 0.12],
  ['fetch', 0.018, 0.02],
  ['wave_wait', 0.083, 0.04],
  ['key_switch', 0.062, 0],
  ['blind_rotate', 0.411, 0],
  ['other_compute', 0.037, 0.76],
  ['store', 0.049, 0.024],
  ['commit', 0, 0.003],
];

function latency(index: number, wall: number, bootstraps: number, isVector: boolean, texts: Texts): Latency {
  const random = randomFrom(index + 900);
  const stages = SHARES.map(([name, blocks, vectors]) => ({
    name,
    nanos: Math.floor((isVector ? vectors : blocks) * wall),
  }));
  const sum = stages.reduce((sum, { nanos }) => sum + nanos, 0);
  // The stages partition the wall time, to the last nanosecond.
  stages[0]!.nanos += wall - sum;
  const waveCount = isVector ? 0 : 12 + Math.floor(random() * 40);
  const waves = Array.from({ length: waveCount }, (_, wave) => {
    const isLast = wave === waveCount - 1;
    const width = Math.round(1024 * (isLast ? 0.3 : 0.55 + 0.45 * random()));
    const cut = isLast
      ? 'idle'
      : (['full', 'full', 'full', 'other_key', 'deadline', 'full', 'idle'][wave % 7] ?? 'full');
    return {
      width: cut === 'full' ? 1024 : width,
      own_width: Math.round(width * (0.15 + 0.75 * random())),
      compute_nanos: Math.round((wall * 0.5) / waveCount),
      cut,
    };
  });
  const cuts = [...new Set(waves.map(({ cut }) => cut))].map(cut => ({
    cut,
    waves: waves.filter(wave => wave.cut === cut).length,
  }));
  return {
    stages,
    wall_nanos: wall,
    device_nanos: Math.round(wall * 0.48),
    bootstraps,
    wave_count: waveCount,
    mean_wave_fill: isVector ? 0 : 0.83,
    companion_waves: isVector ? 0 : 2,
    waves,
    cuts,
    operations: isVector ? operations(wall) : [],
    worker: workerName(index % 3),
    device: texts.free('NVIDIA H100 80GB HBM3'),
    attempts: 1,
  };
}

function operations(wall: number) {
  const kinds: [string, number, number][] = [
    ['polynomial', 1, 0.22],
    ['multiply', 14, 0.11],
    ['rotate', 24, 0.09],
    ['bootstrap.raise', 2, 0.03],
    ['bootstrap.to_coefficients', 2, 0.12],
    ['bootstrap.remainders', 2, 0.1],
    ['bootstrap.to_values', 2, 0.08],
    ['add', 31, 0.01],
  ];
  return kinds.map(([name, count, share]) => ({ name, count, nanos: Math.round(wall * share) }));
}
