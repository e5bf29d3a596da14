// The inside of the servers: batching, keys, the store, the edge, and what the servers report of
// themselves.

import {
  BLUE,
  CUTS,
  CYAN,
  FAILED,
  HEALTHY,
  INDIGO,
  LOOKUPS,
  NEUTRAL,
  PINK,
  STAGES,
  TEAL,
  VIOLET,
  WARNING,
} from '../colours.js';
import type { Board } from '../grid.js';
import { SERVER_EVENTS } from '../marks.js';
import {
  bars,
  heat,
  highIsGood,
  lines,
  lowIsGood,
  METRICS,
  page,
  runbook,
  states,
  tile,
  UNIT,
  type Query,
} from '../panels.js';
import { buckets, events, increase, max, mean, orZero, quantile, rate, series, shortMethod, sum } from '../promql.js';

const POOL = ['pool'] as ['pool'];
const SEVERAL = page('Several servers', 'operations.md#a-database-on-postgresql');
const STAGES_PAGE = page('Where the time goes', 'service.md');

const hits = rate(series('key_cache_jobs_total', ['result="hit"']));
const lookups = rate(series('key_cache_jobs_total'));

const stageSeconds = series('job_stage_seconds_sum');

/** The mean time of a job in some stages. */
function stages(names: string): Query {
  const part = (suffix: string) => rate(series(`job_stage_seconds_${suffix}`, [`stage=~"${names}"`]), ['stage']);
  return { expr: `${part('sum')} / ${part('count')}`, legend: '{{stage}}' };
}

export const internals: Board = {
  name: 'internals',
  title: 'Cloakwork / Service internals',
  text: 'Batching, keys, store and edge of the servers.',
  controls: ['job', 'instance', 'pool'],
  marks: SERVER_EVENTS,
  from: 'now-1h',
  rows: [
    {
      title: 'Batching: many jobs in one wave',
      panels: [
        heat({
          title: 'Width of waves',
          unit: UNIT.wavesPerSecond,
          rows: 'buckets',
          rowUnit: UNIT.count,
          scheme: 'Blues',
          text: 'Waves per second by the number of bootstraps in them, as jobs report them.',
          bad: 'narrow waves under load, because a device computes wide waves at a lower cost for each bootstrap.',
          pages: [METRICS, page('Waves', 'words.md#service')],
          width: 8,
          height: 8,
          queries: [{ expr: buckets({ metric: 'wave_width' }), legend: '{{le}}' }],
        }),
        lines({
          title: 'Fill of waves',
          unit: UNIT.ratio,
          text:
            'Mean fill of the waves of a job, as a share of the preferred width: the mean over all jobs, and the ' +
            'lowest tenth.',
          bad: 'a low fill under load, which means many keys with little work each.',
          pages: [page('What to watch', 'operations.md#what-to-watch'), runbook('CloakworkWaveFillLow')],
          width: 8,
          height: 8,
          max: 1,
          palette: { mean: HEALTHY, median: CYAN, 'lowest tenth': WARNING },
          queries: [
            { expr: mean({ metric: 'wave_fill_ratio' }), legend: 'mean' },
            { expr: quantile(0.5, { metric: 'wave_fill_ratio' }), legend: 'median' },
            { expr: quantile(0.1, { metric: 'wave_fill_ratio' }), legend: 'lowest tenth' },
          ],
        }),
        lines({
          title: 'Why waves were cut',
          unit: UNIT.wavesPerSecond,
          text:
            'Waves per second, by the reason for which each was cut off. Full waves are best under load, and idle ' +
            'ones are right without load.',
          bad: '`other_key`, because jobs of many keys take turns.',
          pages: [METRICS, page('Waves', 'words.md#service')],
          width: 8,
          height: 8,
          stack: 'share',
          palette: CUTS,
          queries: [{ expr: rate(series('job_waves_total'), ['cut']), legend: '{{cut}}' }],
        }),
        lines({
          title: 'Stages of a job',
          unit: UNIT.seconds,
          text:
            'Mean time of a job, stage by stage. The height is the mean time of a whole job. Warm colours are ' +
            'waiting, violet is loading, blue is computing, green is storing.',
          bad: 'warm colours that grow, which means too few workers, or violet, which means that keys do not fit.',
          pages: [STAGES_PAGE, METRICS],
          width: 16,
          height: 9,
          stack: 'sum',
          palette: STAGES,
          legend: ['mean'],
          legendAt: 'right',
          // A query for each kind, so that stages of one kind lie beside each other.
          queries: [
            stages('validate|queue|dispatch|wave_wait'),
            stages('key_load|fetch'),
            stages('key_switch|blind_rotate|other_compute'),
            stages('store|commit'),
          ],
        }),
        bars({
          title: 'Share of each stage',
          unit: UNIT.ratio,
          text: 'Share of each stage in the time of all jobs, over the time of the board.',
          bad: 'a stage of waiting or loading above the stages of computing.',
          pages: [STAGES_PAGE, METRICS],
          width: 8,
          height: 9,
          palette: STAGES,
          queries: [
            {
              expr: `sort_desc(${increase(stageSeconds, ['stage'])} / scalar(${increase(stageSeconds)}))`,
              legend: '{{stage}}',
              instant: true,
            },
          ],
        }),
      ],
    },
    {
      title: 'Keys: loaded once, used by many jobs',
      panels: [
        tile({
          title: 'Jobs with a loaded key',
          unit: UNIT.ratio,
          text: 'Share of succeeded jobs whose key was expanded on the worker already.',
          bad: 'a low share while the same keys are in use, because each miss loads a key.',
          pages: [page('Memory of workers', 'operations.md#workers'), runbook('CloakworkKeyCacheThrashes')],
          width: 4,
          height: 7,
          decimals: 1,
          max: 1,
          levels: highIsGood(0.5, 0.9),
          queries: [{ expr: `${orZero(hits)} / ${lookups}`, legend: 'hits' }],
          none: 'No jobs',
        }),
        lines({
          title: 'Jobs by key hit and miss',
          unit: UNIT.jobsPerSecond,
          text: 'Succeeded jobs per second whose key was loaded already (hit), or that waited for it (miss).',
          bad: 'misses that go on.',
          pages: [page('What to watch', 'operations.md#what-to-watch'), runbook('CloakworkKeyCacheThrashes')],
          width: 6,
          height: 7,
          stack: 'sum',
          palette: LOOKUPS,
          queries: [{ expr: rate(series('key_cache_jobs_total'), ['result']), legend: '{{result}}' }],
        }),
        lines({
          title: 'Resident keys',
          unit: UNIT.bytes,
          text: 'Memory of the expanded keys on all workers, by pool.',
          bad: 'a constant height at the memory for keys, together with misses.',
          pages: [METRICS, page('Memory of workers', 'operations.md#workers')],
          width: 7,
          height: 7,
          stack: 'sum',
          queries: [{ expr: sum(series('key_resident_bytes', [], POOL), POOL), legend: '{{pool}}' }],
        }),
        heat({
          title: 'Time of jobs in key loading',
          unit: UNIT.jobsPerSecond,
          rows: 'buckets',
          rowUnit: UNIT.seconds,
          scheme: 'Purples',
          text:
            'Jobs per second by the time that they waited for their key. Jobs in the lowest row found their key ' +
            'loaded.',
          bad: 'a high band that stays.',
          pages: [METRICS, STAGES_PAGE],
          width: 7,
          height: 7,
          queries: [
            { expr: buckets({ metric: 'job_stage_seconds', matchers: ['stage="key_load"'] }), legend: '{{le}}' },
          ],
        }),
      ],
    },
    {
      title: 'Store: database and blobs',
      panels: [
        heat({
          title: 'Time of database operations',
          unit: UNIT.perSecond,
          rows: 'buckets',
          rowUnit: UNIT.seconds,
          scheme: 'Greens',
          text: 'Operations of the database per second, by their time. The wait for the writer is included.',
          bad: 'a band above 0.1 s, because durable answers wait for it.',
          pages: [METRICS, runbook('CloakworkDatabaseSlow'), runbook('CloakworkDatabaseSaturated')],
          width: 8,
          height: 8,
          queries: [{ expr: buckets({ metric: 'db_seconds' }), legend: '{{le}}' }],
        }),
        heat({
          title: 'Mean time by operation',
          unit: UNIT.seconds,
          rows: 'names',
          scheme: 'Turbo',
          text: 'Mean time of each operation of the database.',
          bad: 'a row that becomes red alone, or all rows at once, which is the disk or PostgreSQL.',
          pages: [METRICS, runbook('CloakworkDatabaseSlow')],
          width: 8,
          height: 8,
          queries: [{ expr: mean({ metric: 'db_seconds' }, ['op']), legend: '{{op}}' }],
        }),
        lines({
          title: 'Errors of database and blob store',
          unit: UNIT.perSecond,
          text: 'Failed operations per second, by kind of error (database) and by operation (blob store).',
          bad: 'any that repeats.',
          pages: [
            page('A full disk', 'operations.md#where-data-lies'),
            runbook('CloakworkDatabaseErrors'),
            runbook('CloakworkBlobStoreErrors'),
          ],
          width: 8,
          height: 8,
          stack: 'sum',
          queries: [
            { expr: rate(series('db_errors_total'), ['kind']), legend: 'database: {{kind}}' },
            { expr: rate(series('blob_store_errors_total'), ['op']), legend: 'blobs: {{op}}' },
          ],
          none: 'No errors',
        }),
        lines({
          title: 'Time of the blob store, p99',
          unit: UNIT.seconds,
          text: 'Time of the slowest hundredth of the operations of the blob store, by operation.',
          bad: 'seconds with a local disk, or a rise with S3.',
          pages: [page('Where data lies', 'operations.md#where-data-lies'), METRICS],
          width: 8,
          height: 7,
          logarithmic: true,
          exemplars: true,
          queries: [{ expr: quantile(0.99, { metric: 'blob_store_seconds' }, ['op']), legend: '{{op}}' }],
        }),
        lines({
          title: 'Uploads and downloads',
          unit: UNIT.bytesPerSecond,
          text: 'Bytes per second that clients and workers upload, and that the server sends them.',
          bad: 'downloads that grow with constant work, because workers load keys again and again.',
          pages: [METRICS, page('Limits', 'limits.md')],
          width: 8,
          height: 7,
          palette: { uploads: TEAL, downloads: INDIGO },
          queries: [
            { expr: rate(series('upload_bytes_total')), legend: 'uploads' },
            { expr: rate(series('download_bytes_total')), legend: 'downloads' },
          ],
        }),
        lines({
          title: 'Uploads: active, resumed, failed',
          unit: UNIT.count,
          text: 'Uploads that receive data at present, and those that were resumed or failed in five minutes.',
          bad: 'failed uploads, or resumed ones from many clients.',
          pages: [METRICS, runbook('CloakworkUploadsFail')],
          width: 8,
          height: 7,
          palette: { active: BLUE, resumed: WARNING, 'digest mismatch': PINK },
          queries: [
            { expr: sum(series('uploads_active')), legend: 'active' },
            { expr: events(series('uploads_resumed_total'), [], '5m'), legend: 'resumed' },
            { expr: events(series('uploads_failed_total'), ['reason'], '5m'), legend: 'failed: {{reason}}' },
            { expr: events(series('upload_digest_mismatches_total'), [], '5m'), legend: 'digest mismatch' },
          ],
        }),
      ],
    },
    {
      title: 'Edge: calls, limits and other servers',
      panels: [
        lines({
          title: 'Calls by method',
          unit: UNIT.callsPerSecond,
          text: 'Ended calls per second of the ten most frequent methods.',
          bad: 'a method that grows without more jobs, such as repeated `GetJob` in place of `WatchJob`.',
          pages: [page('The interface', 'api.md'), METRICS],
          width: 12,
          height: 8,
          stack: 'sum',
          legendAt: 'right',
          queries: [
            {
              expr: shortMethod(`topk(10, ${rate(series('grpc_calls_total'), ['method'])} > 0)`),
              legend: '{{method}}',
            },
          ],
        }),
        heat({
          title: 'Time of client calls',
          unit: UNIT.callsPerSecond,
          rows: 'buckets',
          rowUnit: UNIT.seconds,
          scheme: 'Viridis',
          text:
            'Calls per second by their time, without `RunJob`, `WatchJob` and streams of workers, which last as long ' +
            'as jobs.',
          bad: 'a band that rises, or a second one above it.',
          pages: [METRICS, page('The interface', 'api.md')],
          width: 12,
          height: 8,
          queries: [
            {
              expr: buckets({
                metric: 'grpc_call_seconds',
                matchers: ['method!~".+(RunJob|WatchJob|WorkerService/.+)"'],
              }),
              legend: '{{le}}',
            },
          ],
        }),
        lines({
          title: 'Calls that did not end with OK',
          unit: UNIT.callsPerSecond,
          text: 'Ended calls per second by gRPC code, without OK.',
          bad: 'INTERNAL, UNAVAILABLE and DATA_LOSS, which are faults of the server. CANCELLED is a caller that left.',
          pages: [page('Reasons', 'api.md'), METRICS],
          width: 8,
          height: 7,
          stack: 'sum',
          palette: {
            INTERNAL: FAILED,
            UNAVAILABLE: '#d23f5f',
            DATA_LOSS: '#a3264a',
            UNKNOWN: '#e87591',
            CANCELLED: NEUTRAL,
            UNAUTHENTICATED: WARNING,
            NOT_FOUND: BLUE,
            INVALID_ARGUMENT: INDIGO,
            RESOURCE_EXHAUSTED: VIOLET,
            DEADLINE_EXCEEDED: PINK,
          },
          queries: [{ expr: rate(series('grpc_calls_total', ['code!="OK"']), ['code']), legend: '{{code}}' }],
          none: 'No errors',
        }),
        bars({
          title: 'Limits in use',
          unit: UNIT.ratio,
          text: 'Share of each limit of the server that is in use, of the fullest server.',
          bad: 'above 80 %. At 100 %, calls wait or are refused.',
          pages: [page('Limits', 'limits.md'), runbook('CloakworkLimitNearlyUsed')],
          width: 8,
          height: 7,
          max: 1,
          levels: lowIsGood(0.8, 0.95),
          queries: [
            {
              expr: `sort_desc(${max(`${series('limit_used')} / ${series('limit_value')}`, ['limit'])})`,
              legend: '{{limit}}',
              instant: true,
            },
          ],
        }),
        lines({
          title: 'Calls passed on to another server',
          unit: UNIT.callsPerSecond,
          text:
            'Calls of clients per second that a server passed on to the owner of a shard, by outcome, and repeated ' +
            'ones.',
          bad: 'failed ones, which mean a broken network between servers.',
          pages: [SEVERAL, runbook('CloakworkForwardingFails')],
          width: 8,
          height: 7,
          palette: { answered: HEALTHY, failed: FAILED, repeated: WARNING },
          queries: [
            { expr: rate(series('forwarded_total'), ['outcome']), legend: '{{outcome}}' },
            { expr: rate(series('forward_repeats_total')), legend: 'repeated' },
          ],
          none: 'One server',
        }),
        states({
          title: 'Owners of shards',
          unit: UNIT.yes,
          text: 'Servers that own a shard of the database, and servers that wait to replace an owner.',
          bad: 'a time without any owner, or owners that change without a restart.',
          pages: [SEVERAL, runbook('CloakworkNoOwner')],
          width: 8,
          height: 7,
          words: [
            { value: '0', text: 'waits', colour: '#2b3a52' },
            { value: '1', text: 'owns a shard', colour: INDIGO },
          ],
          queries: [{ expr: max(series('owner'), ['instance']), legend: '{{instance}}' }],
        }),
        lines({
          title: 'Fencing and clock',
          unit: UNIT.count,
          text:
            'Batches of changes that the database refused in five minutes, and seconds by which clocks differ from ' +
            'that of the database.',
          bad: 'any refused batch, or a difference above 1 s.',
          pages: [SEVERAL, runbook('CloakworkFenced'), runbook('CloakworkClockDiffers')],
          width: 8,
          height: 7,
          queries: [
            { expr: events(series('fenced_total'), ['instance'], '5m'), legend: 'refused, {{instance}}' },
            { expr: max(series('clock_difference_seconds'), ['instance']), legend: 'clock (s), {{instance}}' },
          ],
        }),
        lines({
          title: 'Results that were checked or refused',
          unit: UNIT.count,
          text:
            'In five minutes: rows that a second worker computed with the same bits, rows that were not compared, ' +
            'and results that were refused or late.',
          bad: 'a mismatch or a refused attestation, because a worker is wrong.',
          pages: [
            page('Verification', 'operations.md#verification'),
            runbook('CloakworkWrongResult'),
            runbook('CloakworkResultsRefused'),
          ],
          width: 8,
          height: 7,
          palette: { verified: HEALTHY, mismatch: FAILED, late: WARNING },
          queries: [
            { expr: increase(series('verified_rows_total'), [], '5m'), legend: 'verified' },
            {
              expr: `${events(series('unverified_rows_total'), ['reason'], '5m')} > 0`,
              legend: 'unverified: {{reason}}',
            },
            { expr: events(series('verify_mismatches_total'), [], '5m'), legend: 'mismatch' },
            {
              expr: `${events(series('attestations_refused_total'), ['reason'], '5m')} > 0`,
              legend: 'attestation: {{reason}}',
            },
            { expr: events(series('stale_results_total'), [], '5m'), legend: 'late' },
          ],
          none: 'No checks',
        }),
      ],
    },
    {
      title: 'Telemetry of the servers',
      closed: true,
      panels: [
        lines({
          title: 'Exported and dropped spans',
          unit: UNIT.perSecond,
          text: 'Spans of traces per second that the servers exported, or dropped, by reason.',
          bad: 'dropped spans, because traces have gaps.',
          pages: [METRICS, runbook('CloakworkSpansDropped')],
          width: 12,
          height: 7,
          palette: { exported: HEALTHY },
          queries: [
            { expr: rate(series('spans_exported_total')), legend: 'exported' },
            { expr: rate(series('spans_dropped_total'), ['reason']), legend: 'dropped: {{reason}}' },
          ],
          none: 'Tracing is off',
        }),
        lines({
          title: 'Suppressed log lines',
          unit: UNIT.perSecond,
          text:
            'Log events per second that were suppressed, because many of one kind occurred, by the crate that logged ' +
            'them.',
          bad: 'any that goes on. The log has the first lines of each kind.',
          pages: [page('What to watch', 'operations.md#what-to-watch'), METRICS],
          width: 12,
          height: 7,
          stack: 'sum',
          queries: [{ expr: rate(series('log_suppressed_total'), ['target']), legend: '{{target}}' }],
          none: 'None',
        }),
      ],
    },
  ],
};
