// A table. On a phone each row becomes a card, with the label of its column before each value. The
// roles are written out, because a browser drops those of a table that is laid out as cards.

import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  label: string;
  cell: (row: Row) => ComponentChildren;
  isNumber?: boolean;
  /** Heads the card of a row, without its label. */
  isMain?: boolean;
  /** Stands beside the head of the card, without its label. */
  isBeside?: boolean;
}

interface Props<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
}

export function Table<Row>({ caption, columns, rows, keyOf }: Props<Row>) {
  return (
    <div class="table-place" role="group" aria-label={caption} tabIndex={0}>
      <table class="table" role="table">
        <caption class="unseen">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(column => (
              <th key={column.label} role="columnheader" scope="col" class={column.isNumber ? 'number' : undefined}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map(row => (
            <tr key={keyOf(row)} role="row">
              {columns.map(column => (
                <td key={column.label} role="cell" class={cellClass(column)} data-label={column.label}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function cellClass<Row>({ isNumber, isMain, isBeside }: Column<Row>): string | undefined {
  const classes = [isNumber && 'number', isMain && 'main-cell', isBeside && 'beside-cell'].filter(Boolean).join(' ');
  return classes === '' ? undefined : classes;
}
