// The jobs of all tenants or of one, the newest first. The first page is read again and again.

import { read } from '../../api/client.js';
import type { Job, JobPage, JobState } from '../../api/contract.js';
import { useListed } from '../../api/listed.js';
import { count, nanos, shortCount, shortId } from '../../format.js';
import { JobChip } from '../../parts/chip.js';
import { Icon } from '../../parts/icons.js';
import { More } from '../../parts/more.js';
import { Name } from '../../parts/name.js';
import { Meter, Page } from '../../parts/page.js';
import { shortSet } from '../../figures/sets.js';
import { Empty, Loaded } from '../../parts/states.js';
import { Table, type Column } from '../../parts/table.js';
import { Age } from '../../parts/time.js';
import { addressOf } from '../../state/router.js';

const INTERVAL_MS = 3000;

/** `state` filters the jobs of one tenant. */
export function JobsPage({ tenant, state }: { tenant: string | null; state: string | null }) {
  const listed = useListed<Job>('jobs', INTERVAL_MS, nameOf, async (before, signal) => {
    const query = { before, tenant: tenant ?? undefined, state: state ?? undefined };
    const { jobs, next } = await read<JobPage>('jobs', query, signal);
    return { items: jobs, next };
  });
  return (
    <Page
      title="Jobs"
      above={tenant !== null && <WayToAll />}
      lead={tenant === null ? 'The newest first. Each job says where its time went.' : <OfTenant tenant={tenant} />}
      actions={tenant !== null && <States tenant={tenant} state={state} />}
    >
      <Loaded polled={listed} rows={10}>
        {jobs =>
          jobs.length === 0 ? (
            <None tenant={tenant} state={state} />
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

function WayToAll() {
  return (
    <a class="way-back" href={addressOf('jobs')}>
      <Icon name="back" />
      Jobs of all tenants
    </a>
  );
}

function OfTenant({ tenant }: { tenant: string }) {
  return (
    <>
      Of tenant{' '}
      <a href={addressOf('tenant', { name: tenant })}>
        <Name text={tenant} />
      </a>
      , the newest first.
    </>
  );
}

const STATES: readonly (JobState | null)[] = [null, 'queued', 'running', 'succeeded', 'failed', 'cancelled'];

function States({ tenant, state: shown }: { tenant: string; state: string | null }) {
  return (
    <nav class="choices" aria-label="State">
      {STATES.map(state => (
        <a
          key={state}
          href={addressOf('jobs', state === null ? { tenant } : { tenant, state })}
          aria-current={state === shown ? 'true' : undefined}
        >
          {state ?? 'all'}
        </a>
      ))}
    </nav>
  );
}

function None({ tenant, state }: { tenant: string | null; state: string | null }) {
  if (tenant !== null) return <Empty title={`This tenant has no ${state ?? ''} job`} />;
  return (
    <Empty title="No job yet">
      Send the first one: <code>cloakwork pbs --fn square --values 1,2,3</code>
    </Empty>
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
  { label: 'State', isBeside: true, cell: job => <StateOfJob job={job} /> },
  { label: 'Tenant', cell: job => <Name text={job.tenant} /> },
  { label: 'Set', cell: job => <Name text={job.parameter_set} short={shortSet(job.parameter_set)} isCode /> },
  { label: 'Rows', isNumber: true, cell: job => count(job.rows) },
  { label: 'Bootstraps', isNumber: true, cell: job => shortCount(job.bootstraps) },
  { label: 'Wall time', isNumber: true, cell: job => (job.wall_nanos === null ? '–' : nanos(job.wall_nanos)) },
  { label: 'Created', isNumber: true, cell: job => <Age micros={job.created_micros} /> },
];

function StateOfJob({ job }: { job: Job }) {
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
