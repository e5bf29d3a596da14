// One job: what it is, where its time went, and the waves in which it was computed.

import { useState } from 'preact/hooks';

import { read, write } from '../../api/client.js';
import type { Job } from '../../api/contract.js';
import { usePolled } from '../../api/polled.js';
import { useWorkerNames } from '../../api/worker-names.js';
import { shortId } from '../../format.js';
import { JobChip } from '../../parts/chip.js';
import { ActionButton } from '../../parts/dialog.js';
import { Icon } from '../../parts/icons.js';
import { Name } from '../../parts/name.js';
import { Card, Page } from '../../parts/page.js';
import { Empty, Loaded } from '../../parts/states.js';
import { notify } from '../../state/notice.js';
import { addressOf } from '../../state/router.js';
import { mayWrite } from '../../state/session.js';
import { JobDetails, JobFacts } from './facts.js';
import { Operations } from './operations.js';
import { Waterfall } from './waterfall.js';
import { Waves } from './waves.js';

const INTERVAL_MS = 2000;

export function JobPage({ name }: { name: string }) {
  // A job that has ended does not change any more.
  const [hasEnded, setEnded] = useState(false);
  const polled = usePolled<Job>(name, hasEnded ? null : INTERVAL_MS, async signal => {
    const job = await read<Job>('job', { name }, signal);
    setEnded(job.ended_micros !== null);
    return job;
  });
  useWorkerNames();
  const job = polled.data;
  const isOpen = job?.state === 'queued' || job?.state === 'running';
  const cancel = async () => {
    await write('cancel', { name });
    notify('The job is cancelled');
    polled.refresh();
  };

  return (
    <Page
      title={job ? <Name text={job.operation} /> : 'Job'}
      above={
        <a class="way-back" href={addressOf('jobs')}>
          <Icon name="back" />
          Jobs
        </a>
      }
      lead={
        <span class="job-lead">
          {job && <JobChip state={job.state} stage={job.stage} />}
          <Name text={name} isCode />
        </span>
      }
      actions={
        isOpen &&
        mayWrite() && (
          <ActionButton label="Cancel job" title="Cancel this job" confirmLabel="Cancel job" isDangerous act={cancel}>
            <p>
              The job <Name text={name} short={shortId(name)} isCode /> ends with <code>JOB_CANCELLED</code>. Its work
              so far is lost.
            </p>
          </ActionButton>
        )
      }
    >
      <Loaded polled={polled} rows={8}>
        {job => (
          <>
            {job.error && <Failure error={job.error} />}
            <JobFacts job={job} />
            {job.latency ? (
              <>
                <Waterfall latency={job.latency} />
                {job.latency.operations.length > 0 ? (
                  <Operations latency={job.latency} />
                ) : (
                  <Waves latency={job.latency} />
                )}
              </>
            ) : (
              <Card title="Where the time went">
                <Empty title={isOpen ? 'The job has not ended' : 'This job has no latency record'}>
                  {isOpen ? 'Its stages appear here when it ends.' : 'A job that ends without a result may have none.'}
                </Empty>
              </Card>
            )}
            <JobDetails job={job} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Failure({ error }: { error: { reason: string; message: string } }) {
  return (
    <section class="card failure" aria-label="Error">
      <p class="failure-message">
        <bdi>{error.message}</bdi>
      </p>
      <p class="failure-link">
        <a href={addressOf('error', { reason: error.reason })}>
          <Name text={error.reason} isCode />
        </a>{' '}
        has a page that says what to do.
      </p>
    </section>
  );
}
