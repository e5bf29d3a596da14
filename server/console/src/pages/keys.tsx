// Evaluation keys, and the workers that have them in memory.

import { read } from '../api/client.js';
import type { Key, KeyPage } from '../api/contract.js';
import { useListed } from '../api/listed.js';
import { useWorkerNames } from '../api/worker-names.js';
import { bytes, count, shortId } from '../format.js';
import { Chip } from '../parts/chip.js';
import { More } from '../parts/more.js';
import { Name } from '../parts/name.js';
import { Page } from '../parts/page.js';
import { SetNames } from '../parts/sets.js';
import { Empty, Loaded } from '../parts/states.js';
import { Table, type Column } from '../parts/table.js';
import { Age } from '../parts/time.js';
import { addressOf } from '../state/router.js';
import { workerNames } from '../state/workers.js';

const INTERVAL_MS = 10_000;
/** Squares in the strip of workers. Beyond it, a number says it alone. */
const SQUARES_MAX = 24;

export function KeysPage() {
  const listed = useListed<Key>('keys', INTERVAL_MS, idOf, async (after, signal) => {
    const { keys, next } = await read<KeyPage>('keys', { after }, signal);
    return { items: keys, next };
  });
  useWorkerNames();
  return (
    <Page
      title="Keys"
      lead="Evaluation keys, and the workers that have them in memory. A job under a resident key starts at once."
    >
      <Loaded polled={listed} rows={8}>
        {keys =>
          keys.length === 0 ? (
            <Empty title="No key yet">
              Make and send one: <code>cloakwork keygen</code>, then <code>cloakwork keys push</code>
            </Empty>
          ) : (
            <section class="card card-table" aria-label="Keys">
              <Table caption="Keys" columns={COLUMNS} rows={keys} keyOf={idOf} />
            </section>
          )
        }
      </Loaded>
      <More listed={listed} />
    </Page>
  );
}

function idOf(key: Key): string {
  return `${key.tenant} ${key.key_id}`;
}

const COLUMNS: Column<Key>[] = [
  { label: 'Key', isMain: true, cell: key => <Name text={key.key_id} short={shortId(key.key_id)} isCode /> },
  {
    label: 'Tenant',
    cell: key => (
      <a href={addressOf('tenant', { name: key.tenant })}>
        <Name text={key.tenant} />
      </a>
    ),
  },
  { label: 'In memory of', cell: key => <Residency workers={key.resident_workers} /> },
  { label: 'Size', isNumber: true, cell: key => bytes(key.bytes) },
  { label: 'Parts', isNumber: true, cell: key => count(key.parts) },
  { label: 'Sets', cell: key => <SetNames names={key.parameter_sets} /> },
  {
    label: 'Created',
    isNumber: true,
    cell: key => (key.is_deleting ? <Chip tone="wait" text="deleting" /> : <Age micros={key.created_micros} />),
  },
];

/** One square for each worker, full where the key is in memory. */
function Residency({ workers }: { workers: string[] }) {
  const all = [...workerNames.value];
  const resident = new Set(workers);
  const names = workers.map(worker => workerNames.value.get(worker) ?? shortId(worker));
  const text = workers.length === 1 ? (names[0] ?? '') : `${count(workers.length)} workers`;
  return (
    <span class="residency">
      {all.length <= SQUARES_MAX && all.length > 0 && (
        <span class="squares" aria-hidden="true">
          {all.map(([name, display]) => (
            <i key={name} class={resident.has(name) ? 'square square-full' : 'square'} title={display.slice(0, 100)} />
          ))}
        </span>
      )}
      {workers.length === 0 ? <span class="text-faint">no worker</span> : <Name text={text} />}
    </span>
  );
}
