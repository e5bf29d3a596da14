// One number, or several with their names, over the course of the value.

import { level } from './colour.js';
import type { Drawing } from './draw.js';
import { format } from './format.js';
import { escaped, gradient, path, style, svg, tag } from './markup.js';

const GAP = 16;

export function tile({ panel, answers, width, height }: Drawing): string {
  const defaults = panel.fieldConfig?.defaults ?? {};
  const series = answers.flatMap(answer => answer.series).filter(one => one.values.some(value => value !== null));
  const spark = panel.options?.['graphMode'] === 'area';
  const named = series.length > 1 || panel.options?.['textMode'] === 'value_and_name';
  const each = (width - GAP * (series.length - 1)) / series.length;
  const parts = series.map((one, index) => {
    const last = one.values.filter(value => value !== null).at(-1) ?? null;
    const colour = level(last, defaults);
    const { number, unit } = format(last, defaults.unit ?? 'none', defaults.decimals);
    const fits = (each * (named ? 1.1 : 1.45)) / Math.max(3, number.length + unit.length * 0.45);
    const size = Math.round(Math.min(height * (spark ? 0.42 : 0.5), 46, fits));
    const text = escaped(number) + tag('small', {}, escaped(unit));
    const value = tag('div', { class: 'value', style: style({ color: colour, 'font-size': `${size}px` }) }, text);
    const name = named ? tag('div', { class: 'of' }, escaped(one.name)) : '';
    const course = spark ? sparkline(one.values, each, height * 0.42, colour, `t${panel.id}s${index}`) : '';
    return tag('div', { class: 'part' }, course, tag('div', { class: course ? 'words above' : 'words' }, name, value));
  });
  return tag('div', { class: 'tile', style: style({ gap: `${GAP}px` }) }, ...parts);
}

function sparkline(values: (number | null)[], width: number, height: number, colour: string, id: string): string {
  const known = values.filter(value => value !== null);
  const [low, high] = [Math.min(...known, 0), Math.max(...known)];
  const y = (value: number) => height - 2 - (high > low ? ((value - low) / (high - low)) * (height - 6) : 0);
  const points = values.flatMap((value, index): [number, number][] =>
    value === null ? [] : [[(index / Math.max(1, values.length - 1)) * width, y(value)]],
  );
  const [first = 0, last = 0] = [points[0]?.[0], points.at(-1)?.[0]];
  const closed = path([...points, [last, height], [first, height]], true);
  return tag(
    'div',
    { class: 'spark' },
    svg(
      width,
      height,
      tag('defs', {}, gradient(id, colour, 0.32)),
      tag('path', { d: closed, fill: `url(#${id})` }),
      tag('path', { d: path(points), fill: 'none', stroke: colour, 'stroke-opacity': 0.75, 'stroke-width': 1.4 }),
    ),
  );
}
