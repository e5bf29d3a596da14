// The series of a chart, and how uPlot has to draw each.

import uPlot from 'uplot';

import { stacked } from '../figures/stack.js';
import { resolveColour, withAlpha } from './palette.js';

export interface Series {
  label: string;
  /** A custom property of styles/tokens.css, such as `--accent`. */
  colour: string;
  values: (number | null)[];
  /** `glow` is a line over a fading area. */
  form: 'line' | 'glow' | 'bars' | 'pale-bars';
}

const SECONDS_PER_MICRO = 1e-6;
const BAR_SHARE = 0.72;
const BAR_PX_MAX = 34;

/** The data for uPlot. The layers of a stack become upper edges, and the highest is drawn first, behind. */
export function dataOf(micros: readonly number[], series: readonly Series[], isStacked: boolean): uPlot.AlignedData {
  const times = micros.map(time => time * SECONDS_PER_MICRO);
  if (!isStacked) return [times, ...series.map(({ values }) => values)];
  return [times, ...stacked(series.map(({ values }) => values.map(value => value ?? 0))).reverse()];
}

export function drawnSeries(series: readonly Series[], isStacked: boolean): uPlot.Series[] {
  const ordered = isStacked ? [...series].reverse() : series;
  return [{}, ...ordered.map(({ form, colour }) => drawn(form, resolveColour(colour), isStacked))];
}

function drawn(form: Series['form'], colour: string, isStacked: boolean): uPlot.Series {
  const hidden: uPlot.Series = { points: { show: false } };
  if (form === 'bars' || form === 'pale-bars') {
    const fill = form === 'bars' ? colour : withAlpha(colour, 0.28);
    const paths = uPlot.paths.bars?.({ size: [BAR_SHARE, BAR_PX_MAX], radius: 0.12 });
    return { ...hidden, width: 0, fill, ...(paths ? { paths } : {}) };
  }
  if (isStacked) {
    // A line in the colour of the background keeps neighbouring layers apart.
    return { ...hidden, fill: colour, stroke: resolveColour('--surface'), width: 1 };
  }
  const line: uPlot.Series = { ...hidden, stroke: colour, width: form === 'glow' ? 2 : 1.75 };
  return form === 'glow' ? { ...line, fill: chart => fading(chart, colour) } : line;
}

function fading(chart: uPlot, colour: string): CanvasGradient | string {
  const { top, height } = chart.bbox;
  // Before the first layout the chart has no size.
  if (!Number.isFinite(top) || !(height > 0)) return withAlpha(colour, 0.1);
  const gradient = chart.ctx.createLinearGradient(0, top, 0, top + height);
  gradient.addColorStop(0, withAlpha(colour, 0.34));
  gradient.addColorStop(1, withAlpha(colour, 0.02));
  return gradient;
}
