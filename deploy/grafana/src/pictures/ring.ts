// The share of each series in their sum, as a ring.

import { THEME } from './colour.js';
import type { Drawing } from './draw.js';
import { format, label } from './format.js';
import { escaped, style, svg, tag } from './markup.js';

export function ring({ panel, answers, width, height, colours }: Drawing): string {
  const unit = panel.fieldConfig?.defaults?.unit ?? 'none';
  const series = answers
    .flatMap(answer => answer.series)
    .map(({ name, values }) => ({ name, value: values.at(-1) ?? 0, colour: colours.of(name, panel) }))
    .filter(({ value }) => value > 0)
    .sort((one, other) => other.value - one.value);
  const sum = series.reduce((all, one) => all + one.value, 0);
  const size = Math.min(height - 8, width * 0.46);
  const radii: [number, number] = [size / 2 - 2, size / 2 - size * 0.15];
  let begun = 0;
  const parts = series.map(({ value, colour }) => {
    const start = begun / sum;
    begun += value;
    const d = sector(size / 2, radii, start, begun / sum);
    return tag('path', { d, fill: colour, stroke: THEME.panel, 'stroke-width': 2 });
  });
  const whole = format(sum, unit);
  const middle = { x: size / 2, 'text-anchor': 'middle' };
  const number = tag('text', { ...middle, y: size / 2 + 4, class: 'whole' }, escaped(whole.number));
  const under = tag('text', { ...middle, y: size / 2 + 21, class: 'tick' }, escaped(whole.unit));
  const entries = series.map(({ name, value, colour }) => {
    const mark = tag('i', { style: style({ background: colour }) });
    const cells = [mark + escaped(name), label(value / sum, 'percentunit', 0), escaped(label(value, unit))];
    return tag('tr', {}, ...cells.map(cell => tag('td', {}, cell)));
  });
  const legend = tag('table', { class: 'shares' }, ...entries);
  return tag('div', { class: 'ring' }, svg(size, size, ...parts, number, under), legend);
}

/** A part of a ring between two shares of the circle. A full circle ends short of its start. */
function sector(centre: number, [outer, inner]: [number, number], start: number, end: number): string {
  const stop = Math.min(end, start + 0.9999);
  const at = (share: number, radius: number) => {
    const angle = share * 2 * Math.PI - Math.PI / 2;
    return `${(centre + radius * Math.cos(angle)).toFixed(2)},${(centre + radius * Math.sin(angle)).toFixed(2)}`;
  };
  const large = stop - start > 0.5 ? 1 : 0;
  const out = `M${at(start, outer)}A${outer},${outer} 0 ${large} 1 ${at(stop, outer)}`;
  return `${out}L${at(stop, inner)}A${inner},${inner} 0 ${large} 0 ${at(start, inner)}Z`;
}
