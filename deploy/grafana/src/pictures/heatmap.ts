// Values by time and row as colours. Rows are buckets of a histogram, or named series.

import type { Answer } from '../prometheus.js';
import { across, type Area, eventLines, sideAxis, timeAxis, widest } from './axes.js';
import { heat, THEME } from './colour.js';
import type { Drawing } from './draw.js';
import { label } from './format.js';
import { svg, tag } from './markup.js';

interface Row {
  text: string;
  cells: (number | null)[];
}

interface Options {
  color?: { scheme?: string; exponent?: number };
  cellValues?: { unit?: string };
  yAxis?: { unit?: string };
}

const SCALE_HEIGHT = 24;
/** Width of a cell. Narrow cells cannot be told apart. */
const CELL_WIDTH = 7;
/** Height that a text beside a row needs. */
const TEXT_HEIGHT = 15;

export function heatmap({ panel, answers, width, height, events }: Drawing): string {
  const answer = answers[0] ?? { times: [], series: [] };
  const { color, cellValues, yAxis }: Options = panel.options ?? {};
  const scheme = color?.scheme ?? 'Viridis';
  const buckets = panel.targets?.[0]?.format === 'heatmap';
  const rows = buckets ? histogram(answer, yAxis?.unit ?? 'short') : named(answer);
  const { times } = answer;
  const [from, to] = [times[0] ?? 0, times.at(-1) ?? 1];
  const left = Math.max(34, widest(rows.map(row => row.text)) + 12);
  const area: Area = { left, right: width - 6, top: 6, bottom: height - SCALE_HEIGHT - 24 };
  const line = (area.bottom - area.top) / Math.max(1, rows.length);
  const greatest = Math.max(...rows.flatMap(row => row.cells.map(value => value ?? 0)), 0);
  const x = across(area, from, to);
  const columns = groups(times.length, Math.floor((area.right - area.left) / CELL_WIDTH));
  const cells = rows.flatMap((row, number) =>
    columns.map(([start, end]) => {
      const value = mean(row.cells.slice(start, end));
      if (value <= 0) return '';
      const share = (value / greatest) ** (color?.exponent ?? 0.5);
      const [a, b] = [x(times[start] ?? from), x(times[end] ?? to)];
      const y = area.bottom - (number + 1) * line + 0.5;
      const size = { width: Math.max(1, b - a - 0.5), height: Math.max(1, line - 1) };
      return tag('rect', { x: a, y, ...size, rx: 1, fill: heat(share, scheme) });
    }),
  );
  const every = Math.ceil(TEXT_HEIGHT / line);
  const side = rows
    .map((row, number) => ({ at: area.bottom - (number + 0.5) * line, text: row.text, line: false }))
    .filter((_, number) => number % every === 0);
  const ground = { x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top };
  return svg(
    width,
    height,
    tag('rect', { ...ground, fill: THEME.page, 'fill-opacity': 0.55, rx: 3 }),
    timeAxis(area, from, to),
    ...cells,
    sideAxis(area, side),
    eventLines(area, from, to, events),
    scaleBar(area.left, height - 14, Math.min(160, width * 0.4), label(greatest, cellValues?.unit ?? 'short'), scheme),
  );
}

/** Buckets hold the values below their bound, so the next lower bucket is subtracted. */
function histogram(answer: Answer, unit: string): Row[] {
  const bound = (text = '+Inf') => (text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text));
  const buckets = answer.series.map(({ labels, values }) => ({ bound: bound(labels['le']), values }));
  buckets.sort((one, other) => one.bound - other.bound);
  const rows = buckets.map(({ bound, values }, index) => {
    const below = buckets[index - 1];
    const cells = values.map((value, at) => (value === null ? null : Math.max(0, value - (below?.values[at] ?? 0))));
    return { text: Number.isFinite(bound) ? label(bound, unit) : `> ${label(below?.bound ?? 0, unit)}`, cells };
  });
  // Empty rows beyond the ones in use only take room.
  const used = rows.map(row => row.cells.some(value => (value ?? 0) > 0));
  return rows.slice(Math.max(0, used.indexOf(true) - 1), used.lastIndexOf(true) + 2);
}

function named(answer: Answer): Row[] {
  const rows = answer.series.map(series => ({ text: series.name, cells: series.values }));
  return rows.sort((one, other) => (one.text < other.text ? 1 : -1));
}

/** Groups of neighbouring times: the first index of each, and the first one after it. */
function groups(times: number, count: number): [number, number][] {
  const size = Math.max(1, Math.ceil(times / Math.max(1, count)));
  const starts = Array.from({ length: Math.ceil(times / size) }, (_, index) => index * size);
  return starts
    .map((start): [number, number] => [start, Math.min(times - 1, start + size)])
    .filter(([start, end]) => end > start);
}

function mean(cells: (number | null)[]): number {
  const known = cells.filter(cell => cell !== null);
  return known.reduce((sum, cell) => sum + cell, 0) / Math.max(1, known.length);
}

/** The colours from zero to the greatest value. */
function scaleBar(left: number, y: number, length: number, greatest: string, scheme: string): string {
  const steps = 32;
  const cells = Array.from({ length: steps }, (_, index) => {
    const x = left + (index / steps) * length;
    return tag('rect', { x, y, width: length / steps + 0.4, height: 7, fill: heat(index / (steps - 1), scheme) });
  });
  const low = tag('text', { x: left - 6, y: y + 7, 'text-anchor': 'end', class: 'tick' }, '0');
  return cells.join('') + low + tag('text', { x: left + length + 8, y: y + 7, class: 'tick' }, greatest);
}
