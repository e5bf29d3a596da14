// Values over time: lines, stacked areas and bars.

import type { Defaults } from '../checks/json.js';
import type { Answer, Series } from '../prometheus.js';
import { across, type Area, eventLines, sideAxis, timeAxis, widest } from './axes.js';
import { THEME } from './colour.js';
import type { Drawing } from './draw.js';
import { label } from './format.js';
import { escaped, gradient, path, style, svg, tag } from './markup.js';
import { linear, logarithmic, type Scale } from './scale.js';

/** Lower and upper end of a series at a time. */
type Span = [number, number] | null;

interface Drawn extends Series {
  colour: string;
  spans: Span[];
}

/** How the series of a panel are drawn. */
interface Look {
  stack: 'none' | 'normal' | 'percent';
  bars: boolean;
  log: boolean;
  levels: boolean;
}

const LEGEND_LINE = 22;
const LEGEND_LINES_MAX = 2;
/** With more lines, areas below them would hide the lines. */
const GLOWING_MAX = 3;

export function lines(drawing: Drawing): string {
  const { panel, answers, width, height, colours } = drawing;
  const defaults = panel.fieldConfig?.defaults ?? {};
  const look = lookOf(defaults);
  const all = answers.flatMap(answer => answer.series).filter(one => one.values.some(value => value !== null));
  const series = spans(
    all.map(one => ({ ...one, colour: colours.of(one.name, panel), spans: [] })),
    look,
  );
  const legend = (panel.options?.['legend'] ?? {}) as { placement?: string; calcs?: string[] };
  const entries = series.map(one => ({
    name: one.name,
    colour: one.colour,
    value: label(summary(one, legend.calcs?.[0]), defaults.unit ?? 'none', defaults.decimals),
  }));
  if (legend.placement === 'right') {
    const side = Math.min(300, width * 0.4);
    const column = tag('div', { class: 'legend column', style: style({ width: `${side}px` }) }, ...entries.map(entry));
    return tag('div', { class: 'aside' }, chart(drawing, series, look, width - side, height), column);
  }
  const below = legendLines(entries, width) * LEGEND_LINE + 4;
  const row = tag('div', { class: 'legend', style: style({ height: `${below}px` }) }, ...entries.map(entry));
  return chart(drawing, series, look, width, height - below) + row;
}

function lookOf({ custom = {} }: Defaults): Look {
  const part = (name: string) => custom[name] as { mode?: string; type?: string } | undefined;
  return {
    stack: (part('stacking')?.mode ?? 'none') as Look['stack'],
    bars: custom['drawStyle'] === 'bars',
    log: part('scaleDistribution')?.type === 'log',
    levels: (part('thresholdsStyle')?.mode ?? 'off') !== 'off',
  };
}

interface Entry {
  name: string;
  colour: string;
  value: string;
}

function entry({ name, colour, value }: Entry): string {
  const mark = tag('i', { style: style({ background: colour }) });
  return tag(
    'span',
    { class: 'entry' },
    mark,
    tag('span', { class: 'name' }, escaped(name)),
    tag('b', {}, escaped(value)),
  );
}

/** Lines that a legend below a chart needs. */
function legendLines(entries: Entry[], width: number): number {
  let [count, used] = [1, 0];
  for (const { name, value } of entries) {
    const size = Math.min(name.length, 34) * 6.3 + value.length * 6.5 + 38;
    if (used > 0 && used + size > width) [count, used] = [count + 1, 0];
    used += size;
  }
  return Math.min(count, LEGEND_LINES_MAX);
}

/** The value of a series in the legend. */
function summary(series: Series, how = 'lastNotNull'): number | null {
  const values = series.values.filter(value => value !== null);
  if (values.length === 0) return null;
  const sum = values.reduce((all, value) => all + value, 0);
  if (how === 'max') return Math.max(...values);
  if (how === 'mean') return sum / values.length;
  if (how === 'sum') return sum;
  return values.at(-1) ?? null;
}

/** Sets the ends of each series. In a stack, a series begins where the one below it ends. */
function spans(series: Drawn[], { stack }: Look): Drawn[] {
  const count = series[0]?.values.length ?? 0;
  const reached = new Array<number>(count).fill(0);
  const totals = reached.map((_, index) => series.reduce((sum, one) => sum + Math.max(0, one.values[index] ?? 0), 0));
  for (const one of series) {
    one.spans = one.values.map((value, index) => {
      if (stack === 'none') return value === null ? null : [0, value];
      const whole = stack === 'percent' ? (totals[index] ?? 0) : 1;
      if (whole === 0) return null;
      const start = reached[index] ?? 0;
      const end = start + Math.max(0, value ?? 0) / whole;
      reached[index] = end;
      return [start, end];
    });
  }
  return series;
}

function chart(drawing: Drawing, series: Drawn[], look: Look, width: number, height: number): string {
  const { panel, answers, events } = drawing;
  const defaults = panel.fieldConfig?.defaults ?? {};
  const unit = look.stack === 'percent' ? 'percentunit' : (defaults.unit ?? 'none');
  const times = answers[0]?.times ?? [];
  const [from, to] = [times[0] ?? 0, times.at(-1) ?? 1];
  const area: Area = { left: 0, right: width - 6, top: 8, bottom: height - 22 };
  const ends = series.flatMap(one => one.spans.flatMap(span => (span ? [span[1]] : [])));
  const scale = scaleOf(ends, area, look, unit, defaults);
  const ticks = scale.ticks.map(tick => ({ at: scale.at(tick), text: tickLabel(tick, unit, look), line: true }));
  area.left = Math.max(34, widest(ticks.map(tick => tick.text)) + 12);
  const frame: Frame = {
    times,
    x: across(area, from, to),
    scale,
    area,
    look,
    glow: series.length > GLOWING_MAX ? 0 : 0.32 / series.length,
  };
  // The series that comes first in the legend lies on top.
  const shapes = series.map((one, index) => shape(one, frame, `p${panel.id}s${index}`)).reverse();
  const clip = { x: area.left, y: area.top - 2, width: area.right - area.left, height: area.bottom - area.top + 3 };
  const id = `clip${panel.id}`;
  return svg(
    width,
    height,
    tag('defs', {}, tag('clipPath', { id }, tag('rect', clip))),
    sideAxis(area, ticks),
    timeAxis(area, from, to),
    tag(
      'g',
      { 'clip-path': `url(#${id})` },
      ...shapes,
      points(answers, frame),
      look.levels ? levels(defaults, scale, area) : '',
    ),
    eventLines(area, from, to, events),
  );
}

/** Powers of ten of seconds stay seconds: 100 s are no round number of minutes. */
function tickLabel(tick: number, unit: string, { log }: Look): string {
  return log && unit === 's' && tick >= 60 ? `${tick} s` : label(tick, unit);
}

function scaleOf(ends: number[], area: Area, { log, stack }: Look, unit: string, { min, max }: Defaults): Scale {
  const count = Math.max(2, Math.floor((area.bottom - area.top) / 34));
  const room = { low: area.bottom, high: area.top, count, unit };
  const positive = ends.filter(value => value > 0);
  if (log && positive.length > 0)
    return logarithmic({ ...room, min: Math.min(...positive), max: Math.max(...positive) });
  if (stack === 'percent') return linear({ ...room, min: 0, max: 1, fixed: true });
  if (max !== undefined) return linear({ ...room, min: min ?? 0, max, fixed: true });
  const top = Math.max(...ends, 0);
  return linear({ ...room, min: min ?? Math.min(...ends, 0), max: top > 0 ? top * 1.04 : 1 });
}

interface Frame {
  times: number[];
  x: (time: number) => number;
  scale: Scale;
  area: Area;
  look: Look;
  /** Opacity of the area below a line. */
  glow: number;
}

function shape({ colour, spans }: Drawn, { times, x, scale, area, look, glow }: Frame, id: string): string {
  const place = (index: number, end: 0 | 1): [number, number] => [
    x(times[index] ?? 0),
    scale.at(spans[index]?.[end] ?? 0),
  ];
  if (look.bars) {
    const room = (area.right - area.left) / Math.max(1, times.length);
    return columns(spans, place, room > 4 ? room * 0.8 : room + 0.3, colour);
  }
  const flat = look.stack !== 'none';
  const parts = pieces(spans).map((piece, number) => {
    const upper = piece.map(index => place(index, 1));
    const lower = piece.map(index => place(index, 0)).reverse();
    const name = `${id}p${number}`;
    const fill = flat ? { fill: colour, 'fill-opacity': 0.62 } : { fill: `url(#${name})` };
    const [x0 = 0, y0 = 0] = upper[0] ?? [];
    return [
      flat ? '' : tag('defs', {}, gradient(name, colour, glow)),
      tag('path', { d: path([...upper, ...lower], true), ...fill }),
      tag('path', {
        d: path(upper),
        fill: 'none',
        stroke: colour,
        'stroke-width': flat ? 1.2 : 1.8,
        'stroke-linejoin': 'round',
      }),
      piece.length === 1 ? tag('circle', { cx: x0, cy: y0, r: 2, fill: colour }) : '',
    ].join('');
  });
  return parts.join('');
}

function columns(
  spans: Span[],
  place: (index: number, end: 0 | 1) => [number, number],
  width: number,
  colour: string,
): string {
  const bars = spans.map((span, index) => {
    if (!span || span[1] <= span[0]) return '';
    const [[x, top], [, bottom]] = [place(index, 1), place(index, 0)];
    return tag('rect', {
      x: x - width / 2,
      y: top,
      width,
      height: Math.max(0.5, bottom - top),
      fill: colour,
      'fill-opacity': 0.9,
    });
  });
  return bars.join('');
}

/** Runs of times at which a series has values. */
function pieces(spans: Span[]): number[][] {
  const found: number[][] = [];
  for (const [index, span] of spans.entries()) {
    if (!span) continue;
    const last = found.at(-1);
    if (last?.at(-1) === index - 1) last?.push(index);
    else found.push([index]);
  }
  return found;
}

/** Exemplars as diamonds. The queries of a panel often share them. */
function points(answers: Answer[], { x, scale }: Frame): string {
  const places = answers
    .flatMap(answer => answer.exemplars ?? [])
    .filter(({ value }) => value >= scale.min && value <= scale.max)
    .map(({ time, value }) => [Math.round(x(time)), Math.round(scale.at(value))] as const);
  return [...new Map(places.map(place => [place.join(), place])).values()]
    .map(([x, y]) => {
      const corners: [number, number][] = [
        [x - 3.5, y],
        [x, y - 3.5],
        [x + 3.5, y],
        [x, y + 3.5],
      ];
      return tag('path', { d: path(corners, true), fill: THEME.text, 'fill-opacity': 0.75, stroke: THEME.panel });
    })
    .join('');
}

/** The thresholds of a panel as lines. */
function levels({ thresholds }: Defaults, scale: Scale, area: Area): string {
  const shown = (thresholds?.steps ?? []).filter(
    ({ value }) => value !== null && value <= scale.max && value >= scale.min,
  );
  return shown
    .map(({ value, color }) => {
      const y = scale.at(value ?? 0);
      const look = { stroke: color, 'stroke-width': 1.2, 'stroke-dasharray': '6 5', 'stroke-opacity': 0.85 };
      return tag('line', { x1: area.left, x2: area.right, y1: y, y2: y, ...look });
    })
    .join('');
}
