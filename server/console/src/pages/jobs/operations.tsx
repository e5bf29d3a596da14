// Operations of a job on vectors, with the time of each kind.

import type { Latency } from '../../api/contract.js';
import { count, nanos, share } from '../../format.js';
import { Name } from '../../parts/name.js';
import { Card, Meter } from '../../parts/page.js';
import { Table, type Column } from '../../parts/table.js';

type Operation = Latency['operations'][number];

export function Operations({ latency: { operations } }: { latency: Latency }) {
  const all = operations.reduce((sum, { nanos }) => sum + nanos, 0);
  const longest = Math.max(1, ...operations.map(({ nanos }) => nanos));
  const columns: Column<Operation>[] = [
    { label: 'Operation', isMain: true, cell: ({ name }) => <Name text={name} isCode /> },
    { label: 'Count', isNumber: true, cell: operation => count(operation.count) },
    { label: 'Time', isNumber: true, cell: operation => nanos(operation.nanos) },
    { label: 'Each', isNumber: true, cell: operation => nanos(operation.nanos / Math.max(operation.count, 1)) },
    { label: 'Share', isNumber: true, cell: operation => share(all > 0 ? operation.nanos / all : 0) },
    { label: 'Time as a bar', cell: operation => <Meter share={operation.nanos / longest} /> },
  ];
  return (
    <Card title="Operations on vectors" note={`${nanos(all)} in all`}>
      <Table caption="Operations on vectors" columns={columns} rows={operations} keyOf={({ name }) => name} />
    </Card>
  );
}
