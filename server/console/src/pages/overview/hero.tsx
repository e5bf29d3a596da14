// The large number, its curve, and the figures that go with it.

import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';

import type { Overview } from '../../api/contract.js';
import { Chart } from '../../charts/chart.js';
import { count, rate, seconds, share, shortCount } from '../../format.js';

export function Hero({ overview }: { overview: Overview }) {
  const { history, queued, running, oldest_queued_seconds: oldest } = overview;
  const bootstraps = history.bootstraps_per_second.at(-1) ?? 0;
  const failures = history.failures_per_second.at(-1) ?? 0;
  const [p50, p99] = [newestOf(history.p50_seconds), newestOf(history.p99_seconds)];
  const [fill, width] = [newestOf(history.wave_fill), newestOf(history.wave_width)];
  const series = useMemo(
    () => [
      {
        label: 'bootstraps a second',
        colour: '--accent',
        values: history.bootstraps_per_second,
        form: 'glow' as const,
      },
    ],
    [history],
  );

  return (
    <section class="card hero" aria-label="Now">
      <Chart
        title="Bootstraps"
        micros={history.micros}
        series={series}
        heightPx={272}
        format={rate}
        hasDot
        head={
          <p class="hero-number">
            <span class="hero-value">{bootstraps < 100 ? rate(bootstraps) : count(bootstraps)}</span>
            <span class="hero-unit">bootstraps a second</span>
          </p>
        }
      />
      <dl class="hero-figures">
        <Figure label="jobs a second" value={rate(history.jobs_per_second.at(-1) ?? 0)}>
          {failures > 0 ? <span class="text-bad">{rate(failures)} fail</span> : 'none fails'}
        </Figure>
        <Figure label="running" value={shortCount(running)}>
          jobs on workers
        </Figure>
        <Figure label="queued" value={shortCount(queued)}>
          {oldest === null ? 'no job waits' : `the oldest for ${seconds(oldest)}`}
        </Figure>
        <Figure label="wave fill" value={fill === null ? '–' : share(fill)}>
          {width === null ? 'no wave yet' : `${shortCount(width)} wide`}
        </Figure>
        <Figure label="median wall time" value={p50 === null ? '–' : seconds(p50)}>
          half of the jobs
        </Figure>
        <Figure label="99th percentile" value={p99 === null ? '–' : seconds(p99)}>
          of the wall time
        </Figure>
      </dl>
    </section>
  );
}

function Figure({ label, value, children }: { label: string; value: string; children: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>
        <span class="figure-value">{value}</span>
        <span class="figure-note">{children}</span>
      </dd>
    </div>
  );
}

/** The newest value that is known: in an interval without ended jobs there is none. */
function newestOf(values: readonly (number | null)[]): number | null {
  return values.findLast(value => value !== null) ?? null;
}
