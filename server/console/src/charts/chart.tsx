// A chart with its title, and a legend that shows the newest values, or those under the pointer.

import uPlot from 'uplot';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { clock } from '../format.js';
import { paletteVersion } from '../state/theme.js';
import { optionsOf, type Look } from './options.js';
import { dataOf, drawnSeries, type Series } from './series.js';

interface Props extends Partial<Omit<Look, 'format'>> {
  title: string;
  micros: number[];
  series: Series[];
  isStacked?: boolean;
  heightPx: number;
  format: (value: number) => string;
  /** Text in place of the legend. */
  head?: ComponentChildren;
  /** The text in the legend for a value, if it is more than the formatted value. */
  valueText?: (series: Series, index: number) => string;
}

export function Chart(props: Props) {
  const { title, micros, series, isStacked = false, heightPx, format, head, hasDays = false } = props;
  const [under, setUnder] = useState<number | null>(null);
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(undefined);
  const data = dataOf(micros, series, isStacked);
  // Another set of series, or other colours, need another chart. New values do not.
  const isEmpty = micros.length === 0;
  const identity = `${isEmpty} ${paletteVersion.value} ${series.map(({ label, colour }) => label + colour).join()}`;

  useEffect(() => {
    const element = place.current;
    if (!element || isEmpty) return undefined;
    const { valueMax = null, hasDot = false } = props;
    const options = optionsOf(drawnSeries(series, isStacked), { format, hasDays, valueMax, hasDot }, setUnder);
    const drawn = new uPlot({ ...options, width: Math.max(element.clientWidth, 50), height: heightPx }, data, element);
    chart.current = drawn;
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0) drawn.setSize({ width: element.clientWidth, height: heightPx });
    });
    resized.observe(element);
    return () => {
      chart.current = undefined;
      resized.disconnect();
      drawn.destroy();
    };
  }, [identity, heightPx]);

  useEffect(() => {
    chart.current?.setData(data);
  }, [micros, series]);

  const index = under !== null && under < micros.length ? under : micros.length - 1;
  const texts = series.map(one => props.valueText?.(one, index) ?? valueText(one.values[index], format));
  const newest = series.map((one, at) => `${one.label} ${texts[at]}`).join(', ');
  return (
    <figure class="chart">
      <figcaption class="chart-head">
        <h2 class="chart-title">{title}</h2>
        {head ?? (
          <ul class="legend">
            {series.map((one, at) => (
              <li key={one.label} class="legend-item">
                <i
                  class={one.form === 'pale-bars' ? 'swatch swatch-pale' : 'swatch'}
                  style={{ background: `var(${one.colour})` }}
                />
                <bdi class="legend-label">{one.label}</bdi>
                <span class="legend-value">{texts[at]}</span>
              </li>
            ))}
          </ul>
        )}
        {!hasDays && under !== null && (
          <span class="chart-time">
            {/* A legend already has the values under the pointer. */}
            {head && `${texts.join(', ')} at `}
            {clock(micros[index] ?? NaN)}
          </span>
        )}
      </figcaption>
      <div
        class="chart-place"
        ref={place}
        role="img"
        aria-label={isEmpty ? `${title}: no samples yet` : `${title}: ${newest}`}
        style={{ height: `${heightPx}px` }}
      >
        {isEmpty && <p class="chart-none">No samples yet</p>}
      </div>
    </figure>
  );
}

function valueText(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '–' : format(value);
}
