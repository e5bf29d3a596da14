// States as a dot and a word. The word carries the meaning, so that no one needs the colour.

import type { JobState, Server, Worker } from '../api/contract.js';
import { words } from '../format.js';

export type Tone = 'good' | 'busy' | 'wait' | 'bad' | 'calm';

export function Chip({ tone, text, title }: { tone: Tone; text: string; title?: string }) {
  return (
    <span class={`chip chip-${tone}`} title={title}>
      <i class="chip-dot" />
      {text}
    </span>
  );
}

const JOB_TONES: Readonly<Record<JobState, Tone>> = {
  queued: 'wait',
  running: 'busy',
  succeeded: 'good',
  failed: 'bad',
  cancelled: 'calm',
};

/** A running job also says its stage. */
export function JobChip({ state, stage }: { state: JobState; stage: string | null }) {
  return (
    <Chip
      tone={JOB_TONES[state] ?? 'calm'}
      text={state === 'running' && stage ? words(stage) : words(state)}
      title={state}
    />
  );
}

export function WorkerChip({ worker }: { worker: Worker }) {
  if (worker.state === 'disconnected')
    return <Chip tone="bad" text={worker.is_drained ? 'drained, gone' : 'disconnected'} />;
  if (worker.is_drained) return <Chip tone="wait" text={worker.jobs > 0 ? 'draining' : 'drained'} />;
  return <Chip tone={worker.state === 'ready' ? 'good' : 'wait'} text={words(worker.state)} />;
}

export function ServerChip({ state }: { state: Server['state'] }) {
  return <Chip tone={state === 'ready' ? 'good' : 'wait'} text={`server ${words(state)}`} />;
}
