// Draws a panel as HTML with SVG inside. One function for each kind of panel.

import type { Panel } from '../checks/json.js';
import type { Answer } from '../prometheus.js';
import { bars } from './bars.js';
import type { Colours } from './colour.js';
import { heatmap } from './heatmap.js';
import { lines } from './lines.js';
import { escaped, tag } from './markup.js';
import { ring } from './ring.js';
import { states } from './states.js';
import { table } from './table.js';
import { tile } from './tile.js';

/** A panel, its data, and the room for its content in pixels. */
export interface Drawing {
  panel: Panel;
  /** An answer for each query, in their order. */
  answers: Answer[];
  width: number;
  height: number;
  colours: Colours;
  /** Events that every panel over time shows. */
  events: Event[];
}

export interface Event {
  name: string;
  colour: string;
  times: number[];
}

const KINDS: Record<string, (drawing: Drawing) => string> = {
  bargauge: bars,
  heatmap,
  piechart: ring,
  stat: tile,
  'state-timeline': states,
  table,
  timeseries: lines,
};

export function draw(drawing: Drawing): string {
  const { panel, answers } = drawing;
  const kind = KINDS[panel.type];
  if (!kind) throw new Error(`no picture of a panel of the kind ${panel.type}`);
  const empty = answers.every(answer => answer.series.every(series => series.values.every(value => value === null)));
  if (empty) return tag('div', { class: 'empty' }, escaped(panel.fieldConfig?.defaults?.noValue ?? 'No data'));
  return kind(drawing);
}
