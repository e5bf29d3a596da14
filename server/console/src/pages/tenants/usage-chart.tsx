// Bootstraps by day, stacked by tenant.

import { useMemo } from 'preact/hooks';

import type { DayUsage } from '../../api/contract.js';
import { Chart } from '../../charts/chart.js';
import type { Series } from '../../charts/series.js';
import { dayStack } from '../../figures/usage.js';
import { shortCount } from '../../format.js';
import { Empty } from '../../parts/states.js';
import { nowMicros } from '../../state/connection.js';

const TENANTS_MAX = 6;
const HEIGHT_PX = 240;
/** Characters of a name in the legend. */
const LABEL_MAX = 40;

export function UsageChart({ days, dayCount }: { days: DayUsage[]; dayCount: number }) {
  const [micros, series] = useMemo(() => {
    const { micros, layers } = dayStack(days, nowMicros(), dayCount, TENANTS_MAX);
    const series = layers.map(({ tenant, bootstraps }, index): Series => ({
      label: tenant === null ? 'all others' : tenant.slice(0, LABEL_MAX),
      colour: tenant === null ? '--category-other' : `--category-${index + 1}`,
      values: bootstraps,
      form: 'bars',
    }));
    return [micros, series] as const;
  }, [days]);
  return (
    <section class="card" aria-label="Bootstraps by day">
      {series.length === 0 ? (
        <Empty title="No use yet">Each bootstrap of the last {dayCount} days counts here.</Empty>
      ) : (
        <Chart
          title="Bootstraps by day"
          micros={micros}
          series={series}
          isStacked
          heightPx={HEIGHT_PX}
          format={shortCount}
          hasDays
        />
      )}
    </section>
  );
}
