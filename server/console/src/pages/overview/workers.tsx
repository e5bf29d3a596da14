// All workers, with the buttons that drain and resume them.

import { write } from '../../api/client.js';
import type { Worker } from '../../api/contract.js';
import { bytes, count, shortId } from '../../format.js';
import { WorkerChip } from '../../parts/chip.js';
import { ActionButton } from '../../parts/dialog.js';
import { Name } from '../../parts/name.js';
import { Card } from '../../parts/page.js';
import { SetNames } from '../../parts/sets.js';
import { Empty } from '../../parts/states.js';
import { Table, type Column } from '../../parts/table.js';
import { notify } from '../../state/notice.js';
import { mayWrite } from '../../state/session.js';

interface Props {
  workers: Worker[];
  refresh: () => void;
}

export function Workers({ workers, refresh }: Props) {
  const columns: Column<Worker>[] = [
    {
      label: 'Worker',
      isMain: true,
      cell: worker => (
        <span class="two-lines">
          <Name text={worker.display_name} />
          <small>
            <Name text={worker.name} short={shortId(worker.name)} isCode />
          </small>
        </span>
      ),
    },
    { label: 'State', isBeside: true, cell: worker => <WorkerChip worker={worker} /> },
    { label: 'Pool', cell: worker => <Name text={worker.pool} /> },
    { label: 'Class', cell: worker => <Name text={worker.class} /> },
    { label: 'Jobs', isNumber: true, cell: worker => count(worker.jobs) },
    {
      label: 'Keys in memory',
      isNumber: true,
      cell: worker => `${count(worker.resident_keys)} · ${bytes(worker.resident_bytes)}`,
    },
    { label: 'Sets', cell: worker => <SetNames names={worker.parameter_sets} /> },
  ];
  if (mayWrite()) columns.push({ label: 'Action', cell: worker => <WorkerAction worker={worker} refresh={refresh} /> });

  return (
    <Card title="Workers" note={workers.length > 0 && `${count(workers.length)} in all pools`}>
      {workers.length === 0 ? (
        <Empty title="No worker is attached">
          Jobs wait until one is. Start <code>cloakwork-worker</code>, or let the server compute with its own worker.
        </Empty>
      ) : (
        <Table caption="Workers" columns={columns} rows={workers} keyOf={worker => worker.name} />
      )}
    </Card>
  );
}

function WorkerAction({ worker, refresh }: { worker: Worker; refresh: () => void }) {
  const name = worker.display_name.slice(0, 80);
  const send = (path: 'drain' | 'resume', done: string) => async () => {
    await write(path, { worker: worker.name });
    notify(`${name} ${done}`);
    refresh();
  };
  if (worker.is_drained) {
    return (
      <ActionButton
        key="resume"
        label="Resume"
        fullLabel={`Resume ${name}`}
        title="Resume this worker"
        confirmLabel="Resume"
        act={send('resume', 'takes jobs again')}
      >
        <p>
          <Name text={worker.display_name} short={name} /> takes jobs again.
        </p>
      </ActionButton>
    );
  }
  if (worker.state !== 'ready') return <span class="text-faint">–</span>;
  return (
    <ActionButton
      key="drain"
      label="Drain"
      fullLabel={`Drain ${name}`}
      title="Drain this worker"
      confirmLabel="Drain"
      act={send('drain', 'gets no more jobs')}
    >
      <p>
        <Name text={worker.display_name} short={name} /> gets no more jobs.{' '}
        {worker.jobs > 0 ? `Its ${count(worker.jobs)} jobs run to their end.` : 'It has no job now.'} You can resume it
        later.
      </p>
    </ActionButton>
  );
}
