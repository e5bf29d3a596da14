// The eleven stages of a latency record, with their groups and meanings. The groups have the colours
// of docs/boards.md: waiting is warm, keys and inputs are violet, computing is blue, storing is green.

export type StageGroup = 'waiting' | 'loading' | 'computing' | 'storing' | 'unknown';

interface Meaning {
  group: StageGroup;
  text: string;
}

const STAGES = new Map<string, Meaning>([
  ['validate', { group: 'waiting', text: 'From the arrival of the request until the job has been checked' }],
  ['queue', { group: 'waiting', text: 'In the queue, until a worker has the job' }],
  ['dispatch', { group: 'waiting', text: 'Transport to the worker and back' }],
  ['key_load', { group: 'loading', text: 'Reading and expanding the evaluation key; 0 if the key was resident' }],
  ['fetch', { group: 'loading', text: 'Reading inputs' }],
  ['wave_wait', { group: 'waiting', text: 'Waiting for a wave, with everything ready to compute' }],
  ['key_switch', { group: 'computing', text: 'Key switches, in all waves' }],
  ['blind_rotate', { group: 'computing', text: 'Blind rotations, in all waves: the main part of bootstraps' }],
  ['other_compute', { group: 'computing', text: 'All other computing in waves' }],
  ['store', { group: 'storing', text: 'Sending and storing outputs' }],
  ['commit', { group: 'storing', text: "Making the job's end durable" }],
]);

export const STAGE_NAMES: readonly string[] = [...STAGES.keys()];

export const GROUP_TEXTS: Readonly<Record<StageGroup, string>> = {
  waiting: 'waiting',
  loading: 'keys and inputs',
  computing: 'computing',
  storing: 'storing',
  unknown: 'other',
};

/** The meaning of a stage. A server that is newer than this console may send stages that it does not know. */
export function stageMeaning(name: string): Meaning {
  return STAGES.get(name) ?? { group: 'unknown', text: 'A stage that this console does not know' };
}
