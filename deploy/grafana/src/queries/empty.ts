// Queries that have no values under the load of trial.sh, by a part of the expression, and why.

interface Reason {
  parts: string[];
  why: string;
}

const REASONS: Reason[] = [
  { parts: ['cloakwork_gpu_'], why: 'the machine has no GPU' },
  { parts: ['_cpu_energy_joules_total'], why: 'the system may hide the energy of its processors' },
  {
    parts: [
      '_db_errors_total',
      '_blob_store_errors_total',
      '_upload_digest_mismatches_total',
      '_uploads_failed_total',
      '_uploads_resumed_total',
      'state="failed"',
    ],
    why: 'a counter appears with its first event, and nothing failed',
  },
  {
    parts: [
      '_attestations_refused_total',
      '_verify_mismatches_total',
      '_stale_results_total',
      '_unverified_rows_total',
    ],
    why: 'no worker is wrong or late',
  },
  { parts: ['_fenced_total', '_forward_repeats_total'], why: 'no owner was replaced' },
  { parts: ['_spans_dropped_total'], why: 'the collector takes all spans' },
  { parts: ['_log_suppressed_total'], why: 'no event repeats often enough' },
  { parts: ['_worker_key_evictions_total'], why: 'all keys fit into the memory of the workers' },
];

/** Why a query may have no values, if it may. */
export function mayBeEmpty(expr: string): string | undefined {
  return REASONS.find(({ parts }) => parts.some(part => expr.includes(part)))?.why;
}
