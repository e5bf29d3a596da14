// Colours of all boards. A colour has one meaning on every board: green is healthy, amber is a
// warning, red is a failure. Stages of a job's time have the colour of their kind.

export const HEALTHY = '#3ddc97';
export const WARNING = '#ffb454';
export const FAILED = '#ff5c7c';
export const NEUTRAL = '#8391a8';

export const BLUE = '#5aa9ff';
export const INDIGO = '#7c83ff';
export const VIOLET = '#b48cff';
export const PINK = '#f58ac8';
export const CYAN = '#3fd0e0';
export const TEAL = '#2fb8a6';
export const LIME = '#b4dc5a';
export const SAND = '#e3c98f';

/** Names of a closed set of series, and the colour of each. */
export type Palette = Readonly<Record<string, string>>;

/**
 * Stages of a job's latency record. Waiting is warm, keys and inputs are violet, computing is blue,
 * storing is green.
 */
export const STAGES: Palette = {
  validate: '#f7d794',
  queue: '#ffb454',
  dispatch: '#f58f5c',
  wave_wait: '#d9774a',
  key_load: '#b48cff',
  fetch: '#8b6fe0',
  key_switch: '#3fd0e0',
  blind_rotate: '#5aa9ff',
  other_compute: '#4666c9',
  other: '#4666c9',
  store: '#2fb8a6',
  commit: '#3ddc97',
  // Jobs on workers.
  waiting: '#ffb454',
  loading_key: '#b48cff',
  fetching: '#8b6fe0',
  computing: '#5aa9ff',
  committing: '#3ddc97',
};

/** Reasons for which a wave was cut off. Full waves are the ones that use a device best. */
export const CUTS: Palette = {
  full: HEALTHY,
  idle: BLUE,
  deadline: VIOLET,
  other_key: WARNING,
  drain: NEUTRAL,
  unknown: '#5a6478',
};

export const JOB_STATES: Palette = { succeeded: HEALTHY, cancelled: NEUTRAL, failed: FAILED };
export const WORKER_STATES: Palette = { ready: HEALTHY, draining: WARNING };
export const LOOKUPS: Palette = { hit: HEALTHY, miss: WARNING };
export const CALL_OUTCOMES: Palette = {
  answered: HEALTHY,
  'refused or wrong': WARNING,
  'failed by the server': FAILED,
};
