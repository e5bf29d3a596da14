// The newest value of each series as a horizontal bar.

import { faded, level } from './colour.js';
import type { Drawing } from './draw.js';
import { label } from './format.js';
import { escaped, style, tag } from './markup.js';

const LINE_MAX = 46;
/** Below this height of a line, name and bar stand beside each other. */
const LINE_TIGHT = 26;

export function bars({ panel, answers, height, colours }: Drawing): string {
  const defaults = panel.fieldConfig?.defaults ?? {};
  const series = answers
    .flatMap(answer => answer.series)
    .flatMap(({ name, values }) => {
      const value = values.filter(value => value !== null).at(-1);
      return value === undefined ? [] : [{ name, value }];
    });
  const max = defaults.max ?? Math.max(...series.map(one => one.value), 0);
  const min = defaults.min ?? 0;
  const line = Math.min(LINE_MAX, (height - 4) / series.length);
  const rows = series.map(({ name, value }) => {
    const colour = defaults.color?.mode === 'thresholds' ? level(value, defaults) : colours.of(name, panel);
    const share = max > min ? Math.min(1, Math.max(0, (value - min) / (max - min))) : 0;
    const background = `linear-gradient(90deg, ${faded(colour, 0.35)}, ${colour})`;
    const bar = tag('span', { class: 'bar', style: style({ width: `${share * 100}%`, background }) });
    const text = escaped(label(value, defaults.unit ?? 'none', defaults.decimals));
    const head = tag('span', { class: 'name' }, escaped(name)) + tag('b', { style: style({ color: colour }) }, text);
    const parts = tag('div', { class: 'head' }, head) + tag('div', { class: 'track' }, bar);
    return tag('div', { class: 'gauge', style: style({ height: `${line}px` }) }, parts);
  });
  return tag('div', { class: line < LINE_TIGHT ? 'gauges tight' : 'gauges' }, ...rows);
}
