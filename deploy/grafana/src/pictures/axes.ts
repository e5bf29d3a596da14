// Axes that lines, heat maps and bands of states share.

import { THEME } from './colour.js';
import type { Event } from './draw.js';
import { clock } from './format.js';
import { escaped, path, tag } from './markup.js';
import { instants } from './scale.js';

/** The rectangle of a chart between its axes. */
export interface Area {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** The place of a time on the horizontal axis. */
export function across(area: Area, from: number, to: number): (time: number) => number {
  return time => area.left + ((time - from) / (to - from)) * (area.right - area.left);
}

/** Times below a chart. */
export function timeAxis(area: Area, from: number, to: number): string {
  const x = across(area, from, to);
  const ticks = instants(from, to, Math.max(2, Math.floor((area.right - area.left) / 90)));
  const precise = ticks.length > 1 && (ticks[1] ?? 0) - (ticks[0] ?? 0) < 60;
  const marks = ticks.map(tick => {
    const at = x(tick);
    // A time at an end of the axis would leave the panel.
    const anchor = at > area.right - 14 ? 'end' : at < area.left + 14 ? 'start' : 'middle';
    const text = { x: at, y: area.bottom + 15, 'text-anchor': anchor, class: 'tick' };
    return (
      upright(at, area, { stroke: THEME.grid, 'stroke-dasharray': '2 4' }) + tag('text', text, clock(tick, precise))
    );
  });
  return marks.join('');
}

/** A text beside a chart. */
export interface Tick {
  at: number;
  text: string;
  /** Draws a line through the chart. */
  line: boolean;
}

export function sideAxis(area: Area, ticks: Tick[]): string {
  return ticks
    .map(({ at, text, line }) => {
      const rule = { x1: area.left, x2: area.right, y1: at, y2: at, stroke: THEME.grid };
      const place = { x: area.left - 8, y: at + 3.5, 'text-anchor': 'end', class: 'tick' };
      return (line ? tag('line', rule) : '') + tag('text', place, escaped(text));
    })
    .join('');
}

/** A line at each event. */
export function eventLines(area: Area, from: number, to: number, events: Event[]): string {
  const x = across(area, from, to);
  const mark = (at: number, colour: string) => {
    const foot = area.bottom + 5;
    const arrow = path(
      [
        [at - 4, foot],
        [at + 4, foot],
        [at, area.bottom],
      ],
      true,
    );
    const line = upright(at, area, { stroke: colour, 'stroke-dasharray': '3 3', 'stroke-opacity': 0.8 });
    return line + tag('path', { d: arrow, fill: colour });
  };
  return events.flatMap(({ colour, times }) => times.map(time => mark(x(time), colour))).join('');
}

function upright(at: number, area: Area, look: Record<string, string | number>): string {
  return tag('line', { x1: at, x2: at, y1: area.top, y2: area.bottom, ...look });
}

/** Room that texts beside a chart take. */
export function widest(texts: string[]): number {
  return Math.max(0, ...texts.map(text => text.length * 6.6));
}
