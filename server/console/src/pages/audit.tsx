// The audit log: who did what to the installation.

import { read } from '../api/client.js';
import type { AuditPage, Entry } from '../api/contract.js';
import { useListed } from '../api/listed.js';
import { count, words } from '../format.js';
import { Chip } from '../parts/chip.js';
import { More } from '../parts/more.js';
import { Name } from '../parts/name.js';
import { Page } from '../parts/page.js';
import { Empty, Loaded } from '../parts/states.js';
import { Table, type Column } from '../parts/table.js';
import { DateTime } from '../parts/time.js';

const INTERVAL_MS = 10_000;

export function AuditLogPage() {
  const listed = useListed<Entry>('audit', INTERVAL_MS, idOf, async (before, signal) => {
    const { entries, next } = await read<AuditPage>('audit', { before }, signal);
    return { items: entries, next };
  });
  return (
    <Page title="Audit log" lead="Who did what, the newest first.">
      <Loaded polled={listed} rows={10}>
        {entries =>
          entries.length === 0 ? (
            <Empty title="No entry yet">Sign-ins, tokens, tenants and drained workers leave an entry here.</Empty>
          ) : (
            <section class="card card-table" aria-label="Entries">
              <Table caption="Entries" columns={COLUMNS} rows={entries} keyOf={idOf} />
            </section>
          )
        }
      </Loaded>
      <More listed={listed} />
    </Page>
  );
}

function idOf(entry: Entry): string {
  return entry.id;
}

const COLUMNS: Column<Entry>[] = [
  { label: 'Time', isBeside: true, cell: entry => <DateTime micros={entry.at_micros} /> },
  { label: 'Act', isMain: true, cell: entry => <Name text={entry.act} short={words(entry.act)} /> },
  { label: 'Actor', cell: entry => <Name text={entry.actor} /> },
  { label: 'Subject', cell: entry => <Name text={entry.subject} isCode /> },
  { label: 'Detail', cell: entry => <span class="advice">{entry.detail === '' ? '–' : entry.detail}</span> },
  {
    label: 'Refusals',
    isNumber: true,
    cell: entry =>
      entry.refusals > 0 ? <Chip tone="bad" text={count(entry.refusals)} /> : <span class="text-faint">–</span>,
  },
];
