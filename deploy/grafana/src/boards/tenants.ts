// Tenants and what they use.

import { BLUE, CYAN, FAILED, PINK, TEAL } from '../colours.js';
import type { Board } from '../grid.js';
import { SERVER_EVENTS } from '../marks.js';
import { bars, lines, lowIsGood, METRICS, page, plain, ring, rows, tile, UNIT, type Page } from '../panels.js';
import { events, increase, quantile, RANGE, rate, series } from '../promql.js';

const SET = ['parameter_set'] as ['parameter_set'];
const CAP = page('The label `tenant`', 'boards.md#tenants-and-usage');
const PAGES: [Page, ...Page[]] = [CAP, METRICS];
/** Said of each panel with the label `tenant`. */
const CAPPED = 'Tenants beyond the cap of the label are `_other`.';

const ended = (labels: string[]) => increase(series('tenant_jobs_ended_total'), labels);
const bootstraps = (labels: string[]) => increase(series('tenant_pbs_total'), labels);

export const tenants: Board = {
  name: 'tenants',
  title: 'Cloakwork / Tenants and usage',
  text: 'Jobs, bootstraps and latency of tenants, and the mix of their work.',
  controls: ['job', 'instance', 'pool', 'parameter_set'],
  marks: SERVER_EVENTS,
  from: 'now-24h',
  rows: [
    {
      title: 'Usage over the time of the board',
      panels: [
        tile({
          title: 'Active tenants',
          unit: UNIT.count,
          text: `Tenants with ended jobs. ${CAPPED}`,
          bad: 'a fall, which means that a client cannot work.',
          pages: PAGES,
          width: 6,
          height: 4,
          levels: plain(CYAN),
          queries: [{ expr: `count(${ended(['tenant'])} > 0)`, legend: 'tenants', instant: true }],
          none: 'None',
        }),
        tile({
          title: 'Bootstraps',
          unit: UNIT.bootstraps,
          text: 'Bootstraps of succeeded jobs of all tenants.',
          bad: 'far fewer than usual.',
          pages: PAGES,
          width: 6,
          height: 4,
          decimals: 1,
          levels: plain(BLUE),
          queries: [{ expr: bootstraps([]), legend: 'bootstraps', instant: true }],
        }),
        tile({
          title: 'Jobs',
          unit: UNIT.count,
          text: 'Ended jobs of all tenants.',
          bad: 'far fewer than usual.',
          pages: PAGES,
          width: 6,
          height: 4,
          levels: plain(TEAL),
          queries: [{ expr: ended([]), legend: 'jobs', instant: true }],
        }),
        tile({
          title: 'Bootstraps of unnamed tenants',
          unit: UNIT.ratio,
          text: 'Share of bootstraps whose tenant is beyond the cap of the label.',
          bad: 'a large share, because the board hides who uses the service. Raise the limit `metric_tenants`.',
          pages: PAGES,
          width: 6,
          height: 4,
          decimals: 1,
          max: 1,
          levels: lowIsGood(0.2, 0.5),
          queries: [
            {
              expr: `(${increase(series('tenant_pbs_total', ['tenant="_other"']))} or vector(0)) / ${bootstraps([])}`,
              legend: '_other',
              instant: true,
            },
          ],
        }),
        bars({
          title: 'Top tenants by bootstraps',
          unit: UNIT.bootstraps,
          text: `The ten tenants with the most bootstraps. ${CAPPED}`,
          bad: 'one tenant far above its usual use.',
          pages: PAGES,
          width: 8,
          height: 9,
          queries: [{ expr: `sort_desc(topk(10, ${bootstraps(['tenant'])}))`, legend: '{{tenant}}', instant: true }],
        }),
        bars({
          title: 'Top tenants by jobs',
          unit: UNIT.count,
          text: `The ten tenants with the most ended jobs. ${CAPPED}`,
          bad: 'very many small jobs of one tenant, which cost more than one large job.',
          pages: PAGES,
          width: 8,
          height: 9,
          decimals: 0,
          queries: [{ expr: `sort_desc(topk(10, ${ended(['tenant'])}))`, legend: '{{tenant}}', instant: true }],
        }),
        ring({
          title: 'Share of bootstraps',
          unit: UNIT.bootstraps,
          text: `Share of each tenant in all bootstraps. ${CAPPED}`,
          bad:
            'one tenant with nearly all while others wait. The scheduler shares workers evenly among waiting ' +
            'tenants.',
          pages: PAGES,
          width: 8,
          height: 9,
          queries: [{ expr: bootstraps(['tenant']), legend: '{{tenant}}', instant: true }],
        }),
      ],
    },
    {
      title: 'Tenants over time',
      panels: [
        lines({
          title: 'Bootstraps per second by tenant',
          unit: UNIT.bootstrapsPerSecond,
          text: `Bootstraps of succeeded jobs per second, by tenant. ${CAPPED}`,
          bad: 'a tenant at zero while its jobs wait.',
          pages: PAGES,
          width: 12,
          height: 8,
          stack: 'sum',
          queries: [{ expr: rate(series('tenant_pbs_total'), ['tenant']), legend: '{{tenant}}' }],
        }),
        lines({
          title: 'Jobs per second by tenant',
          unit: UNIT.jobsPerSecond,
          text: `Ended jobs per second, by tenant. ${CAPPED}`,
          bad: 'a tenant that stops.',
          pages: PAGES,
          width: 12,
          height: 8,
          stack: 'sum',
          queries: [{ expr: rate(series('tenant_jobs_ended_total'), ['tenant']), legend: '{{tenant}}' }],
        }),
        lines({
          title: 'Median time of a job by tenant',
          unit: UNIT.seconds,
          text: `Median time of the jobs of each tenant, from acceptance to the end. ${CAPPED}`,
          bad: 'one tenant that rises while its programs stay.',
          pages: PAGES,
          width: 12,
          height: 8,
          logarithmic: true,
          queries: [{ expr: quantile(0.5, { metric: 'tenant_job_seconds' }, ['tenant']), legend: '{{tenant}}' }],
        }),
        lines({
          title: 'p99 of the time of a job by tenant',
          unit: UNIT.seconds,
          text: `Time of the slowest hundredth of the jobs of each tenant. ${CAPPED}`,
          bad: 'all tenants rise together, which means too few workers.',
          pages: PAGES,
          width: 12,
          height: 8,
          logarithmic: true,
          exemplars: true,
          queries: [{ expr: quantile(0.99, { metric: 'tenant_job_seconds' }, ['tenant']), legend: '{{tenant}}' }],
        }),
        rows({
          title: 'Tenants',
          unit: UNIT.count,
          text: `Usage of each tenant over the time of the board. ${CAPPED}`,
          bad: 'failed jobs, or a long p99.',
          pages: PAGES,
          width: 14,
          height: 8,
          by: 'tenant',
          heading: 'tenant',
          columns: [
            { title: 'bootstraps', unit: UNIT.bootstraps, bar: BLUE, decimals: 1 },
            { title: 'jobs', unit: UNIT.count, bar: TEAL, decimals: 0 },
            { title: 'failed', unit: UNIT.count, bar: FAILED, decimals: 0 },
            { title: 'p50', unit: UNIT.seconds },
            { title: 'p99', unit: UNIT.seconds },
          ],
          queries: [
            { expr: bootstraps(['tenant']), legend: '' },
            { expr: ended(['tenant']), legend: '' },
            { expr: events(series('tenant_jobs_ended_total', ['state="failed"']), ['tenant'], RANGE), legend: '' },
            { expr: quantile(0.5, { metric: 'tenant_job_seconds' }, ['tenant'], '$__range'), legend: '' },
            { expr: quantile(0.99, { metric: 'tenant_job_seconds' }, ['tenant'], '$__range'), legend: '' },
          ],
        }),
        lines({
          title: 'Jobs that did not succeed',
          unit: UNIT.jobsPerSecond,
          text: `Failed and cancelled jobs per second, by tenant. ${CAPPED}`,
          bad: 'failed jobs of many tenants at once. Those of one tenant are usually its own mistakes.',
          pages: PAGES,
          width: 10,
          height: 8,
          bars: true,
          stack: 'sum',
          queries: [
            {
              expr: `${rate(series('tenant_jobs_ended_total', ['state!="succeeded"']), ['tenant', 'state'])} > 0`,
              legend: '{{tenant}}, {{state}}',
            },
          ],
          none: 'All jobs succeeded',
        }),
      ],
    },
    {
      title: 'The mix of work',
      panels: [
        lines({
          title: 'Bootstraps by parameter set',
          unit: UNIT.bootstrapsPerSecond,
          text: 'Bootstraps of succeeded jobs per second, by parameter set.',
          bad: 'a set that no pool serves well.',
          pages: [page('Parameter sets', 'parameters.md'), METRICS],
          width: 8,
          height: 8,
          stack: 'sum',
          queries: [
            { expr: rate(series('pbs_total', [], ['pool', 'parameter_set']), SET), legend: '{{parameter_set}}' },
          ],
        }),
        lines({
          title: 'Jobs by operation',
          unit: UNIT.jobsPerSecond,
          text: 'Ended jobs per second, by operation of their programs.',
          bad: 'a change that nobody announced.',
          pages: [page('Programs', 'integers.md'), METRICS],
          width: 8,
          height: 8,
          stack: 'sum',
          queries: [{ expr: rate(series('job_seconds_count', [], SET), ['operation']), legend: '{{operation}}' }],
        }),
        lines({
          title: 'Median time of a job by operation',
          unit: UNIT.seconds,
          text: 'Median time of a job from acceptance to its end, by operation.',
          bad: 'all operations rise together, which means too few workers.',
          pages: [page('Cost of operations', 'operations.md#what-encrypted-operations-cost'), METRICS],
          width: 8,
          height: 8,
          logarithmic: true,
          queries: [
            { expr: quantile(0.5, { metric: 'job_seconds', filters: SET }, ['operation']), legend: '{{operation}}' },
          ],
        }),
        lines({
          title: 'Accepted jobs by parameter set',
          unit: UNIT.jobsPerSecond,
          text: 'Accepted jobs per second, by parameter set.',
          bad: 'more than end, for long.',
          pages: [page('Parameter sets', 'parameters.md'), METRICS],
          width: 12,
          height: 7,
          stack: 'sum',
          queries: [{ expr: rate(series('jobs_submitted_total', [], SET), SET), legend: '{{parameter_set}}' }],
        }),
        lines({
          title: 'Jobs with more than one attempt',
          unit: UNIT.ratio,
          text: 'Share of ended jobs that were assigned to a worker more than once.',
          bad: 'any for long, because workers are lost or lack memory.',
          pages: [page('Leases and failures', 'operations.md#workers'), METRICS],
          width: 12,
          height: 7,
          palette: { repeated: PINK },
          queries: [
            {
              expr: `1 - ${rate(series('job_attempts_bucket', ['le=~"1|1[.]0"']))} / ${rate(series('job_attempts_count'))}`,
              legend: 'repeated',
            },
          ],
        }),
      ],
    },
  ],
};
