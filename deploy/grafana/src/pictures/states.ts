// A state of each series over time as a band of colours.

import { across, type Area, eventLines, sideAxis, timeAxis, widest } from './axes.js';
import { THEME } from './colour.js';
import type { Drawing } from './draw.js';
import { escaped, style, svg, tag } from './markup.js';

const LEGEND_HEIGHT = 26;
const BAND_MAX = 34;

export function states({ panel, answers, width, height, events }: Drawing): string {
  const { times, series } = answers[0] ?? { times: [], series: [] };
  const words = panel.fieldConfig?.defaults?.mappings?.[0]?.options ?? {};
  const [from, to] = [times[0] ?? 0, times.at(-1) ?? 1];
  const left = widest(series.map(one => one.name)) + 14;
  const area: Area = { left, right: width - 6, top: 6, bottom: height - LEGEND_HEIGHT - 22 };
  const line = Math.min(BAND_MAX, (area.bottom - area.top) / Math.max(1, series.length));
  const x = across(area, from, to);
  const bands = series.flatMap((one, number) =>
    runs(one.values).map(([start, end, value]) => {
      const [a, b] = [x(times[start] ?? from), x(times[Math.min(end, times.length - 1)] ?? to)];
      const y = area.top + (number + 0.12) * line;
      const fill = words[`${value}`]?.color ?? THEME.faint;
      return tag('rect', { x: a, y, width: Math.max(1, b - a), height: line * 0.76, rx: 2, fill, 'fill-opacity': 0.9 });
    }),
  );
  const side = series.map((one, number) => ({ at: area.top + (number + 0.5) * line, text: one.name, line: false }));
  const legend = Object.values(words).map(({ text = '', color = THEME.faint }) => {
    const mark = tag('i', { style: style({ background: color }) });
    return tag('span', { class: 'entry' }, mark, tag('span', { class: 'name' }, escaped(text)));
  });
  const axes = [timeAxis(area, from, to), ...bands, sideAxis(area, side), eventLines(area, from, to, events)];
  return svg(width, height - LEGEND_HEIGHT, ...axes) + tag('div', { class: 'legend' }, ...legend);
}

/** Times in which a value stays, as first index, index after the last, and value. */
function runs(values: (number | null)[]): [number, number, number][] {
  const found: [number, number, number][] = [];
  for (const [index, value] of values.entries()) {
    if (value === null) continue;
    const last = found.at(-1);
    if (last && last[1] === index && last[2] === value) last[1] = index + 1;
    else found.push([index, index + 1, value]);
  }
  return found;
}
