// One tenant: its use, day by day, and its limits.

import type { ComponentChildren } from 'preact';

import { read } from '../../api/client.js';
import type { DayUsage, Tenant, Tenants, Usage } from '../../api/contract.js';
import { usePolled } from '../../api/polled.js';
import { NO_USE, totalsByTenant } from '../../figures/usage.js';
import { bytes, count, limit, seconds, share, shortCount } from '../../format.js';
import { Icon } from '../../parts/icons.js';
import { Name } from '../../parts/name.js';
import { Card, Facts, Meter, Page } from '../../parts/page.js';
import { Empty, Loaded } from '../../parts/states.js';
import { Table, type Column } from '../../parts/table.js';
import { DateTime } from '../../parts/time.js';
import { addressOf } from '../../state/router.js';
import { TenantChip, USAGE_DAYS } from './tenants.js';
import { UsageChart } from './usage-chart.js';

const INTERVAL_MS = 30_000;
const SECONDS_PER_DAY = 86_400;

export function TenantPage({ name }: { name: string }) {
  const polled = usePolled<[Tenants, Usage]>(`tenant ${name}`, INTERVAL_MS, signal =>
    Promise.all([
      read<Tenants>('tenants', {}, signal),
      read<Usage>('usage', { days: `${USAGE_DAYS}`, tenant: name }, signal),
    ]),
  );
  const tenant = polled.data?.[0].tenants.find(tenant => tenant.name === name);
  return (
    <Page
      title={<Name text={name} />}
      above={
        <a class="way-back" href={addressOf('tenants')}>
          <Icon name="back" />
          Tenants
        </a>
      }
      lead={tenant && <TenantChip tenant={tenant} />}
    >
      <Loaded polled={polled} rows={8}>
        {([, { days }]) => (
          <>
            {tenant && <TenantFacts tenant={tenant} days={days} />}
            <UsageChart days={days} dayCount={USAGE_DAYS} />
            {tenant && <Limits tenant={tenant} />}
            {days.length > 0 && <Days days={days} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function TenantFacts({ tenant, days }: { tenant: Tenant; days: DayUsage[] }) {
  const use = totalsByTenant(days).get(tenant.name) ?? NO_USE;
  const facts: [string, ComponentChildren][] = [
    ['bootstraps', count(use.bootstraps)],
    ['jobs', <a href={addressOf('jobs', { tenant: tenant.name })}>{count(use.jobs)}</a>],
    ['unsuccessful', use.jobs > 0 ? share(use.unsuccessful_jobs / use.jobs) : '–'],
    ['device time', seconds(use.device_seconds)],
    ['received', bytes(use.received_bytes)],
    ['stored now', bytes(tenant.stored_bytes)],
    ['stored on average', bytes(use.stored_byte_seconds / (USAGE_DAYS * SECONDS_PER_DAY))],
    ['keys', count(tenant.keys)],
    ['shard', count(tenant.shard)],
    ['created', <DateTime micros={tenant.created_micros} />],
  ];
  if (tenant.revoked_micros !== null) facts.push(['revoked', <DateTime micros={tenant.revoked_micros} />]);
  if (tenant.deleting_micros !== null) facts.push(['deleting since', <DateTime micros={tenant.deleting_micros} />]);
  return (
    <section class="card" aria-label="Facts">
      <Facts facts={facts} />
    </section>
  );
}

function Days({ days }: { days: DayUsage[] }) {
  const newestFirst = [...days].sort((a, b) => (a.day < b.day ? 1 : -1));
  return (
    <Card title="Days" note="In UTC">
      <Table caption="Days" columns={DAY_COLUMNS} rows={newestFirst} keyOf={({ day }) => day} />
    </Card>
  );
}

const DAY_COLUMNS: Column<DayUsage>[] = [
  { label: 'Day', isMain: true, cell: ({ day }) => <Name text={day} /> },
  { label: 'Bootstraps', isNumber: true, cell: ({ bootstraps }) => shortCount(bootstraps) },
  { label: 'Jobs', isNumber: true, cell: ({ jobs }) => count(jobs) },
  { label: 'Unsuccessful', isNumber: true, cell: ({ unsuccessful_jobs }) => count(unsuccessful_jobs) },
  { label: 'Device time', isNumber: true, cell: ({ device_seconds }) => seconds(device_seconds) },
  { label: 'Received', isNumber: true, cell: ({ received_bytes }) => bytes(received_bytes) },
  { label: 'Stored', isNumber: true, cell: day => bytes(day.stored_byte_seconds / SECONDS_PER_DAY) },
  { label: 'Keys', isNumber: true, cell: ({ key_seconds }) => shortCount(key_seconds / SECONDS_PER_DAY) },
];

/** Limits of which the console knows how much is used. */
const USED: Readonly<Record<string, (tenant: Tenant) => number>> = {
  tenant_bytes: tenant => tenant.stored_bytes,
  tenant_keys: tenant => tenant.keys,
};

type Limit = Tenant['limits'][number];

function Limits({ tenant }: { tenant: Tenant }) {
  if (tenant.limits.length === 0) {
    return (
      <Card title="Limits">
        <Empty title="No limit of its own">The limits of the configuration apply.</Empty>
      </Card>
    );
  }
  const columns: Column<Limit>[] = [
    { label: 'Limit', isMain: true, cell: ({ name }) => <Name text={name} isCode /> },
    { label: 'Value', isNumber: true, cell: ({ name, value }) => limit(name, value) },
    {
      label: 'Used',
      isNumber: true,
      cell: ({ name, value }) => {
        const used = USED[name]?.(tenant);
        if (used === undefined || value <= 0) return <span class="text-faint">–</span>;
        return (
          <span class="with-meter">
            {share(used / value)}
            <Meter share={used / value} colour={used / value > 0.9 ? '--bad' : '--accent'} />
          </span>
        );
      },
    },
  ];
  return (
    <Card title="Limits">
      <Table caption="Limits" columns={columns} rows={tenant.limits} keyOf={({ name }) => name} />
    </Card>
  );
}
