// Options that all charts have in common: quiet axes, a range from zero, and one cursor for all charts
// over time.

import uPlot from 'uplot';

import { clockLabel, plain } from '../format.js';
import { resolveColour, withAlpha } from './palette.js';

const FONT = '11px ui-sans-serif, system-ui, sans-serif';
/** The highest value reaches this share of the height. */
const HEADROOM = 1.12;

export interface Look {
  format: (value: number) => string;
  /** Whether the values lie on days in UTC, and not on times of day. */
  hasDays: boolean;
  /** The highest end of the vertical axis, or null if the values decide. */
  valueMax: number | null;
  hasDot: boolean;
}

export function optionsOf(series: uPlot.Series[], look: Look, onCursor: (index: number | null) => void): uPlot.Options {
  const [faint, line] = [resolveColour('--text-faint'), resolveColour('--line')];
  const axis: uPlot.Axis = { stroke: faint, font: FONT, ticks: { show: false } };
  return {
    width: 100,
    height: 100,
    // The last mark of the time may lie at the right end, and needs half of its width beyond it.
    padding: [8, 20, 0, 0],
    legend: { show: false },
    ...(look.hasDays ? { tzDate: time => uPlot.tzDate(new Date(time * 1e3), 'Etc/UTC') } : {}),
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 7, width: 2, fill: resolveColour('--surface') },
      ...(look.hasDays ? {} : { sync: { key: 'time' } }),
    },
    scales: {
      x: { time: true, ...(look.hasDays ? { range: withHalfDays } : {}) },
      y: { range: (_, __, highest) => [0, look.valueMax ?? (highest > 0 ? highest * HEADROOM : 1)] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 26, gap: 6, space: 76, values: look.hasDays ? dayTexts : clockTexts },
      {
        ...axis,
        grid: { stroke: withAlpha(line, 0.9), width: 1 },
        size: widthOf,
        gap: 8,
        space: 34,
        values: (_, splits) => splits.map(value => plain(look.format(value))),
      },
    ],
    series,
    hooks: {
      setCursor: [chart => onCursor(chart.cursor.idx ?? null)],
      ...(look.hasDot ? { draw: [drawNewest] } : {}),
    },
  };
}

/** Bars of days stand around their starts, so the first and the last need half a day beyond them. */
function withHalfDays(_: uPlot, first: number, last: number): [number, number] {
  const halfDaySeconds = 43_200;
  return [first - halfDaySeconds, last + halfDaySeconds];
}

function clockTexts(_: uPlot, splits: number[], __: number, ___: number, stepSeconds: number): string[] {
  return splits.map(time => clockLabel(time * 1e6, stepSeconds));
}

function dayTexts(_: uPlot, splits: number[]): string[] {
  return splits.map(time => new Date(time * 1e3).toISOString().slice(5, 10));
}

/** The width of the labels beside the vertical axis. */
function widthOf(_: uPlot, texts: string[] | null): number {
  const longest = Math.max(0, ...(texts ?? []).map(text => text.length));
  return 14 + longest * 6.4;
}

/** A dot with a halo at the newest value. */
function drawNewest(chart: uPlot): void {
  const times = chart.data[0];
  const newest = times.length - 1;
  const value = chart.data[1]?.[newest];
  const time = times[newest];
  if (value === null || value === undefined || time === undefined) return;
  const [x, y] = [chart.valToPos(time, 'x', true), chart.valToPos(value, 'y', true)];
  const colour = resolveColour('--accent');
  for (const [radius, alpha] of [
    [8, 0.25],
    [3.5, 1],
  ] as const) {
    chart.ctx.beginPath();
    chart.ctx.arc(x, y, radius * devicePixelRatio, 0, 2 * Math.PI);
    chart.ctx.fillStyle = withAlpha(colour, alpha);
    chart.ctx.fill();
  }
}
