// Keys, tenants, their use, errors, and the audit log.

import type { DayUsage, Entry, Key, Reason, Tenant } from '../../src/api/contract.js';
import { SET_2_2, SET_BOOLEAN, workerName } from './overview.js';
import { randomFrom, uuid } from './random.js';
import type { Texts } from './texts.js';

const TENANT_COUNT = 9;
const DAY_MICROS = 86_400e6;

export function keys(nowMicros: number, texts: Texts): Key[] {
  return Array.from({ length: 34 }, (_, index) => {
    const random = randomFrom(index + 300);
    return {
      tenant: texts.tenant(index % TENANT_COUNT),
      key_id: texts.free(uuid(index + 40).replaceAll('-', '')),
      bytes: Math.round(30.1e6 * (0.7 + 5 * random() * random())),
      parts: 2 + (index % 3) * 2,
      parameter_sets: index % 3 === 0 ? [texts.free(SET_2_2), SET_BOOLEAN] : [texts.free(SET_2_2)],
      created_micros: nowMicros - (index + random()) * 3.1 * DAY_MICROS,
      is_deleting: index === 6,
      resident_workers: Array.from({ length: 6 }, (_, worker) => worker)
        .filter(worker => worker !== 4 && random() < 0.55 - index * 0.016)
        .map(workerName),
    };
  });
}

export function tenants(nowMicros: number, texts: Texts): Tenant[] {
  return Array.from({ length: TENANT_COUNT }, (_, index) => ({
    name: texts.tenant(index),
    shard: 0,
    created_micros: nowMicros - (40 + index * 17) * DAY_MICROS,
    revoked_micros: index === 7 ? nowMicros - 2 * DAY_MICROS : null,
    deleting_micros: index === 8 ? nowMicros - 0.1 * DAY_MICROS : null,
    stored_bytes: Math.round(41e9 / (1 + index * index * 0.4)),
    keys: 12 - index,
    limits: [
      { name: 'tenant_bytes', value: 68_719_476_736 },
      { name: 'tenant_keys', value: 100 },
      { name: 'tenant_queued_jobs', value: 10_000 },
      { name: 'tenant_requests', value: 1024 },
      { name: 'tenant_programs', value: 10_000 },
      { name: 'upload_expiry_seconds', value: 86_400 },
    ],
  }));
}

export function usage(nowMicros: number, texts: Texts, dayCount: number, tenant: string | null): DayUsage[] {
  const today = Math.floor(nowMicros / DAY_MICROS);
  const days: DayUsage[] = [];
  for (let at = today - dayCount + 1; at <= today; at += 1) {
    for (let index = 0; index < TENANT_COUNT; index += 1) {
      const name = texts.tenant(index);
      const random = randomFrom(at * 31 + index);
      // Some tenants rest on some days, and all of them use less at weekends.
      if ((tenant !== null && tenant !== name) || random() < index * 0.05) continue;
      const weekend = (at + 4) % 7 === 0 || (at + 4) % 7 === 6 ? 0.35 : 1;
      const growth = 0.55 + (0.45 * (at - today + dayCount)) / dayCount;
      const bootstraps = Math.round((9.2e8 / (1 + index * 0.8)) * weekend * growth * (0.75 + 0.5 * random()));
      const jobs = Math.round(bootstraps / 5200);
      days.push({
        tenant: name,
        day: new Date((at * DAY_MICROS) / 1000).toISOString().slice(0, 10),
        jobs,
        unsuccessful_jobs: Math.round(jobs * 0.004 * (1 + index) * random()),
        bootstraps,
        device_seconds: bootstraps / 51_000,
        received_bytes: jobs * 9100,
        stored_byte_seconds: (41e9 / (1 + index)) * 86_400,
        key_seconds: (12 - index) * 86_400,
      });
    }
  }
  return days;
}

const REASONS: readonly [string, number, number, string][] = [
  ['OVERLOADED', 4120, 0, 'Try again after the delay in RetryInfo'],
  ['DEADLINE_EXCEEDED', 12, 318, 'Allow more time, or send less work at once'],
  ['UNAUTHENTICATED', 204, 0, 'Send a token in the header `authorization: Bearer cw_...`'],
  ['QUOTA_EXCEEDED', 96, 0, 'Delete keys or ciphertexts, abort uploads, or ask the operator for a larger quota'],
  ['JOB_CANCELLED', 0, 41, 'Submit the job again if you still want its result'],
  ['KEY_NOT_FOUND', 37, 0, 'Register the evaluation key first'],
  ['WORKER_OUT_OF_MEMORY', 0, 6, 'Submit the job again; if the error persists, split the job'],
  ['KEY_QUARANTINED', 2, 1, 'Upload the damaged part again and register it'],
];

export function reasons(texts: Texts): Reason[] {
  return REASONS.map(([reason, calls, jobs, advice]) => ({ reason, calls, jobs, advice: texts.free(advice) }));
}

const ACTS: readonly [string, string, string][] = [
  ['drain_worker', 'workers/', 'an operator drained the worker'],
  ['create_token', 'tenants/acme-health/tokens/7', 'scopes: submit, read'],
  ['sign_in', 'console', 'by a link that works once'],
  ['set_limit', 'tenants/northwind', 'tenant_keys: 100 to 250'],
  ['create_tenant', 'tenants/field-lab', ''],
  ['revoke_token', 'tenants/payroll/tokens/3', 'the token was found in a log'],
];

export function auditEntries(nowMicros: number, texts: Texts): Entry[] {
  return Array.from({ length: 120 }, (_, index) => {
    const [act, subject, detail] = ACTS[index % ACTS.length] ?? ACTS[0]!;
    return {
      id: `${5000 - index}`,
      at_micros: nowMicros - (index * index * 40 + index * 700 + 90) * 1e6,
      actor: texts.free(['mira', 'deploy-bot', 'jonas'][index % 3] ?? 'mira'),
      act: texts.free(act),
      subject: texts.free(subject === 'workers/' ? workerName(index % 6) : subject),
      detail: detail === '' ? '' : texts.free(detail),
      refusals: index % 11 === 5 ? 3 : 0,
    };
  });
}
