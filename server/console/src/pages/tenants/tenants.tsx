// All tenants, and how many bootstraps each of them used on each day.

import { read } from '../../api/client.js';
import type { Tenant, Tenants, Usage } from '../../api/contract.js';
import { usePolled } from '../../api/polled.js';
import { NO_USE, totalsByTenant, type Totals } from '../../figures/usage.js';
import { bytes, count, share, shortCount } from '../../format.js';
import { Chip } from '../../parts/chip.js';
import { Name } from '../../parts/name.js';
import { Meter, Page } from '../../parts/page.js';
import { Empty, Loaded } from '../../parts/states.js';
import { Table, type Column } from '../../parts/table.js';
import { addressOf } from '../../state/router.js';
import { UsageChart } from './usage-chart.js';

const INTERVAL_MS = 30_000;
export const USAGE_DAYS = 30;

export function TenantsPage() {
  const polled = usePolled<[Tenants, Usage]>('tenants', INTERVAL_MS, signal =>
    Promise.all([read<Tenants>('tenants', {}, signal), read<Usage>('usage', { days: `${USAGE_DAYS}` }, signal)]),
  );
  return (
    <Page title="Tenants" lead={`Accounts, and their use in the last ${USAGE_DAYS} days.`}>
      <Loaded polled={polled} rows={8}>
        {([{ tenants }, { days }]) =>
          tenants.length === 0 ? (
            <Empty title="No tenant yet">
              Make one on the server: <code>cloakwork-server tenant create NAME</code>
            </Empty>
          ) : (
            <>
              <UsageChart days={days} dayCount={USAGE_DAYS} />
              <section class="card card-table" aria-label="Tenants">
                <TenantTable tenants={tenants} totals={totalsByTenant(days)} />
              </section>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

interface Row {
  tenant: Tenant;
  use: Totals;
}

function TenantTable({ tenants, totals }: { tenants: Tenant[]; totals: Map<string, Totals> }) {
  const rows: Row[] = tenants
    .map(tenant => ({ tenant, use: totals.get(tenant.name) ?? NO_USE }))
    .sort((a, b) => b.use.bootstraps - a.use.bootstraps);
  const most = Math.max(1, ...rows.map(({ use }) => use.bootstraps));
  const columns: Column<Row>[] = [
    {
      label: 'Tenant',
      isMain: true,
      cell: ({ tenant }) => (
        <a class="row-link" href={addressOf('tenant', { name: tenant.name })}>
          <Name text={tenant.name} />
        </a>
      ),
    },
    { label: 'State', isBeside: true, cell: ({ tenant }) => <TenantChip tenant={tenant} /> },
    {
      label: 'Bootstraps',
      isNumber: true,
      cell: ({ use }) => (
        <span class="with-meter">
          {shortCount(use.bootstraps)}
          <Meter share={use.bootstraps / most} />
        </span>
      ),
    },
    { label: 'Jobs', isNumber: true, cell: ({ use }) => shortCount(use.jobs) },
    {
      label: 'Unsuccessful',
      isNumber: true,
      cell: ({ use }) => (use.jobs > 0 ? share(use.unsuccessful_jobs / use.jobs) : '–'),
    },
    { label: 'Stored', isNumber: true, cell: ({ tenant }) => bytes(tenant.stored_bytes) },
    { label: 'Keys', isNumber: true, cell: ({ tenant }) => count(tenant.keys) },
    { label: 'Shard', isNumber: true, cell: ({ tenant }) => count(tenant.shard) },
  ];
  return <Table caption="Tenants" columns={columns} rows={rows} keyOf={({ tenant }) => tenant.name} />;
}

export function TenantChip({ tenant }: { tenant: Tenant }) {
  if (tenant.deleting_micros !== null) return <Chip tone="wait" text="deleting" />;
  if (tenant.revoked_micros !== null) return <Chip tone="bad" text="revoked" />;
  return <Chip tone="good" text="active" />;
}
