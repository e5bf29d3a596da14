// A job's plain facts.

import type { ComponentChildren } from 'preact';

import type { Job } from '../../api/contract.js';
import { shortSet } from '../../figures/sets.js';
import { count, nanos, shortId } from '../../format.js';
import { Name } from '../../parts/name.js';
import { Card, Facts, Meter } from '../../parts/page.js';
import { Age, DateTime } from '../../parts/time.js';
import { addressOf } from '../../state/router.js';
import { workerNames } from '../../state/workers.js';

/** The facts above the waterfall. */
export function JobFacts({ job }: { job: Job }) {
  const facts: [string, ComponentChildren][] = [
    [
      'tenant',
      <a href={addressOf('tenant', { name: job.tenant })}>
        <Name text={job.tenant} />
      </a>,
    ],
    ['wall time', job.wall_nanos === null ? '–' : nanos(job.wall_nanos)],
    ['bootstraps', count(job.bootstraps)],
    ['rows', <Rows job={job} />],
    ['parameter set', <Name text={job.parameter_set} short={shortSet(job.parameter_set)} isCode />],
    ['created', <Age micros={job.created_micros} />],
  ];
  return (
    <section class="card" aria-label="Facts">
      <Facts facts={facts} />
    </section>
  );
}

/** All other facts. */
export function JobDetails({ job }: { job: Job }) {
  const { latency } = job;
  const facts: [string, ComponentChildren][] = [
    ['created', <DateTime micros={job.created_micros} />],
    ['ended', job.ended_micros === null ? 'not yet' : <DateTime micros={job.ended_micros} />],
    ['deadline', <DateTime micros={job.deadline_micros} />],
    ['priority', count(job.priority)],
    ['attempts', count(job.attempts)],
  ];
  if (latency) {
    facts.push(
      [
        'worker',
        <Name text={latency.worker} short={workerNames.value.get(latency.worker) ?? shortId(latency.worker)} />,
      ],
      ['device', <Name text={latency.device} />],
      ['device time', nanos(latency.device_nanos)],
    );
  }
  const names: [string, ComponentChildren][] = [
    ['key', <Name text={job.key} isCode />],
    ['program', <Name text={job.program} isCode />],
    ['parameter set', <Name text={job.parameter_set} isCode />],
  ];
  return (
    <Card title="Details">
      <Facts facts={facts} />
      <Facts facts={names} isWide />
    </Card>
  );
}

function Rows({ job: { rows, rows_done, state } }: { job: Job }) {
  if (state !== 'running') return <>{count(rows)}</>;
  return (
    <span class="rows-done">
      {count(rows_done)} of {count(rows)}
      <Meter share={rows_done / rows} />
    </span>
  );
}
