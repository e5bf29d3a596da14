// All jobs, the newest first. The first page is read again and again.

import { read } from '../../api/client.js';
import type { Job, JobPage } from '../../api/contract.js';
import { useListed } from '../../api/listed.js';
import { count, nanos, shortCount, shortId } from '../../format.js';
import { JobChip } from '../../parts/chip.js';
import { More } from '../../parts/more.js';
import { Name } from '../../parts/name.js';
import { Meter, Page } from '../../parts/page.js';
import { shortSet } from '../../figures/sets.js';
import { Empty, Loaded } from '../../parts/states.js';
import { Table, type Column } from '../../parts/table.js';
import { Age } from '../../parts/time.js';
import { addressOf } from '../../state/router.js';

const INTERVAL_MS = 3000;

export function JobsPage() {
  const listed = useListed<Job>('jobs', INTERVAL_MS, nameOf, async (before, signal) => {
    const { jobs, next } = await read<JobPage>('jobs', { before }, signal);
    return { items: jobs, next };
  });
  return (
    <Page title="Jobs" lead="The newest first. Each job says where its time went.">
      <Loaded polled={listed} rows={10}>
        {jobs =>
          jobs.length === 0 ? (
            <Empty title="No job yet">
              Send the first one: <code>cloakwork pbs --fn square --values 1,2,3</code>
            </Empty>
          ) : (
            <section class="card card-table" aria-label="Jobs">
              <Table caption="Jobs" columns={COLUMNS} rows={jobs} keyOf={nameOf} />
            </section>
          )
        }
      </Loaded>
      <More listed={listed} />
    </Page>
  );
}

function nameOf(job: Job): string {
  return job.name;
}

const COLUMNS: Column<Job>[] = [
  {
    label: 'Job',
    isMain: true,
    cell: job => (
      <a class="row-link two-lines" href={addressOf('job', { name: job.name })}>
        <Name text={job.operation} />
        <small>
          <Name text={job.name} short={shortId(job.name)} isCode />
        </small>
      </a>
    ),
  },
  { label: 'State', isBeside: true, cell: job => <JobState job={job} /> },
  { label: 'Tenant', cell: job => <Name text={job.tenant} /> },
  { label: 'Set', cell: job => <Name text={job.parameter_set} short={shortSet(job.parameter_set)} isCode /> },
  { label: 'Rows', isNumber: true, cell: job => count(job.rows) },
  { label: 'Bootstraps', isNumber: true, cell: job => shortCount(job.bootstraps) },
  { label: 'Wall time', isNumber: true, cell: job => (job.wall_nanos === null ? '–' : nanos(job.wall_nanos)) },
  { label: 'Created', isNumber: true, cell: job => <Age micros={job.created_micros} /> },
];

function JobState({ job }: { job: Job }) {
  return (
    <span class="job-state">
      <JobChip state={job.state} stage={job.stage} />
      {job.state === 'running' && job.rows > 1 && <Meter share={job.rows_done / job.rows} />}
      {job.error && (
        <small class="text-bad">
          <Name text={job.error.reason} isCode />
        </small>
      )}
    </span>
  );
}
