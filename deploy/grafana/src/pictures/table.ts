// A table with a row for each value of a label, and a column for each query.

import type { Panel } from '../checks/json.js';
import type { Answer } from '../prometheus.js';
import { faded, THEME } from './colour.js';
import type { Drawing } from './draw.js';
import { label } from './format.js';
import { escaped, style, tag } from './markup.js';

const LINE = 27;

interface Column {
  title: string;
  cells: Map<string, number | null>;
  max: number;
  unit: string;
  decimals: number | undefined;
  /** Colour of the bar behind a value. */
  bar: string | undefined;
}

export function table({ panel, answers, height }: Drawing): string {
  const organize = (panel.transformations ?? []).find(({ id }) => id === 'organize');
  const names = (organize?.options as { renameByName?: Record<string, string> } | undefined)?.renameByName ?? {};
  const by = Object.keys(names).find(name => !name.startsWith('Value #')) ?? '';
  const columns = answers.map((answer, index) =>
    column(panel, answer, by, names[`Value #${panel.targets?.[index]?.refId}`] ?? ''),
  );
  const keys = [...new Set(columns.flatMap(({ cells }) => [...cells.keys()]))];
  const rank = (key: string) => columns[0]?.cells.get(key) ?? 0;
  keys.sort((one, other) => rank(other) - rank(one));
  const head = [names[by] ?? by, ...columns.map(({ title }) => title)].map(title => tag('th', {}, escaped(title)));
  const rows = keys.slice(0, Math.floor((height - 30) / LINE)).map(key => {
    const cells = columns.map(one => cell(one, one.cells.get(key) ?? null));
    return tag('tr', {}, tag('td', {}, escaped(key)), ...cells);
  });
  return tag('table', { class: 'rows' }, tag('tr', {}, ...head), ...rows);
}

function column(panel: Panel, answer: Answer, by: string, title: string): Column {
  const override = (panel.fieldConfig?.overrides ?? []).find(({ matcher }) => matcher.options === title);
  const property = (id: string) => override?.properties.find(property => property.id === id)?.value;
  const colour = property('color') as { fixedColor?: string } | undefined;
  const cells = new Map(answer.series.map(({ labels, values }) => [labels[by] ?? '', values.at(-1) ?? null]));
  return {
    title,
    cells,
    max: Math.max(...[...cells.values()].map(value => value ?? 0), 0),
    unit: (property('unit') as string | undefined) ?? panel.fieldConfig?.defaults?.unit ?? 'none',
    decimals: property('decimals') as number | undefined,
    bar: colour && (colour.fixedColor ?? THEME.soft),
  };
}

function cell({ bar, max, unit, decimals }: Column, value: number | null): string {
  const text = escaped(label(value, unit, decimals));
  if (!bar || value === null || max === 0) return tag('td', {}, text);
  const colours = `linear-gradient(90deg, ${faded(bar, 0.2)}, ${faded(bar, 0.55)})`;
  const size = `left 3px/${((value / max) * 100).toFixed(1)}% calc(100% - 6px)`;
  return tag('td', { style: style({ background: `${colours} no-repeat ${size}` }) }, text);
}
