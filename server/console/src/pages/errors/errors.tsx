// Reasons for which calls and jobs failed, since the start of the server.

import { read } from '../../api/client.js';
import type { Reason, Reasons } from '../../api/contract.js';
import { usePolled } from '../../api/polled.js';
import { count } from '../../format.js';
import { Name } from '../../parts/name.js';
import { Card, Meter, Page } from '../../parts/page.js';
import { Empty, Loaded } from '../../parts/states.js';
import { Table, type Column } from '../../parts/table.js';
import { WithCode } from '../../parts/with-code.js';
import { addressOf } from '../../state/router.js';
import { REASONS_WITH_PAGE } from './pages.js';

const INTERVAL_MS = 10_000;

export function ErrorsPage() {
  const polled = usePolled<Reasons>('errors', INTERVAL_MS, signal => read('errors', {}, signal));
  return (
    <Page title="Errors" lead="Reasons for which calls and jobs failed, since the start of the server.">
      <Loaded polled={polled} rows={8}>
        {({ reasons }) =>
          reasons.length === 0 ? (
            <Empty title="Nothing has failed">Reasons appear here with the first call or job that fails.</Empty>
          ) : (
            <section class="card card-table" aria-label="Reasons">
              <ReasonTable reasons={reasons} />
            </section>
          )
        }
      </Loaded>
      <Card title="All reasons" note="What each means, and what to do">
        <ul class="reasons">
          {REASONS_WITH_PAGE.map(reason => (
            <li key={reason}>
              <a href={addressOf('error', { reason })}>{reason}</a>
            </li>
          ))}
        </ul>
      </Card>
    </Page>
  );
}

function ReasonTable({ reasons }: { reasons: Reason[] }) {
  const most = Math.max(1, ...reasons.map(({ calls, jobs }) => calls + jobs));
  const columns: Column<Reason>[] = [
    {
      label: 'Reason',
      isMain: true,
      cell: ({ reason }) => (
        <a class="row-link" href={addressOf('error', { reason })}>
          <Name text={reason} isCode />
        </a>
      ),
    },
    { label: 'Share', cell: ({ calls, jobs }) => <Meter share={(calls + jobs) / most} colour="--bad" /> },
    { label: 'Calls', isNumber: true, cell: ({ calls }) => count(calls) },
    { label: 'Jobs', isNumber: true, cell: ({ jobs }) => count(jobs) },
    {
      label: 'Advice',
      cell: ({ advice }) => (
        <span class="advice">
          <WithCode text={advice} />
        </span>
      ),
    },
  ];
  return <Table caption="Reasons" columns={columns} rows={reasons} keyOf={({ reason }) => reason} />;
}
