// The last minutes: the queue, wall times, waves, and why waves were cut.

import { useMemo } from 'preact/hooks';

import { CUTS, type History } from '../../api/contract.js';
import { Chart } from '../../charts/chart.js';
import type { Series } from '../../charts/series.js';
import { cutColour } from '../../figures/cuts.js';
import { rate, seconds, share, shortCount, words } from '../../format.js';

const HEIGHT_PX = 168;

export function Charts({ history }: { history: History }) {
  const { micros } = history;
  const [queue, wall, waves, cuts] = useMemo(() => seriesOf(history), [history]);
  return (
    <div class="chart-grid">
      <section class="card" aria-label="Jobs">
        <Chart title="Jobs" micros={micros} series={queue} heightPx={HEIGHT_PX} format={shortCount} />
      </section>
      <section class="card" aria-label="Wall time">
        <Chart title="Wall time" micros={micros} series={wall} heightPx={HEIGHT_PX} format={seconds} />
      </section>
      <section class="card" aria-label="Waves">
        <Chart
          title="Wave width and fill"
          micros={micros}
          series={waves}
          heightPx={HEIGHT_PX}
          format={shortCount}
          valueText={(one, index) =>
            one.label === 'fill' ? fillText(history.wave_fill[index]) : widthText(history.wave_width[index])
          }
        />
      </section>
      <section class="card" aria-label="Cuts of waves">
        <Chart
          title="Waves a second, by cut"
          micros={micros}
          series={cuts}
          isStacked
          heightPx={HEIGHT_PX}
          format={rate}
        />
      </section>
    </div>
  );
}

function seriesOf(history: History): [Series[], Series[], Series[], Series[]] {
  return [
    [
      { label: 'running', colour: '--accent', values: history.running, form: 'line' },
      { label: 'queued', colour: '--warm', values: history.queued, form: 'line' },
    ],
    [
      { label: 'median', colour: '--accent', values: history.p50_seconds, form: 'line' },
      { label: '99 %', colour: '--violet', values: history.p99_seconds, form: 'line' },
    ],
    [
      // A pale bar is as high as the wave could have been wide, and the full bar inside of it as it was.
      { label: 'fill', colour: '--accent', values: preferredWidths(history), form: 'pale-bars' },
      { label: 'width', colour: '--accent', values: history.wave_width, form: 'bars' },
    ],
    CUTS.map(cut => ({ label: words(cut), colour: cutColour(cut), values: history.cuts[cut], form: 'line' })),
  ];
}

/** The width that a device would have liked best: a wave's fill is its width as a share of it. */
function preferredWidths({ wave_fill, wave_width }: History): (number | null)[] {
  return wave_width.map((width, index) => {
    const fill = wave_fill[index];
    return width !== null && fill ? width / fill : null;
  });
}

function fillText(fill: number | null | undefined): string {
  return fill === null || fill === undefined ? '–' : share(fill);
}

function widthText(width: number | null | undefined): string {
  return width === null || width === undefined ? '–' : shortCount(width);
}
