// Variables of the boards: the data source, the address of the documentation, and filters.

import type { Builder } from '@grafana/grafana-foundation-sdk/cog';
import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';

import { SOURCE } from './panels.js';

/** A filter at the top of a board. */
export type Control = 'job' | 'instance' | 'worker_job' | 'worker_instance' | 'pool' | 'parameter_set';

interface Origin {
  name: string;
  label: string;
  text: string;
  query: string;
}

/** Processes that have the metrics of a server, and those that have the metrics of a worker. */
const SERVERS = 'cloakwork_build_info';
const WORKERS = '{__name__=~"cloakwork_worker_jobs|cloakwork_gpu_memory_bytes"}';

/** Metrics of servers and of workers that have every parameter set in use. */
const SETS = 'cloakwork_jobs_submitted_total|cloakwork_worker_bootstraps_total';

/** Any value. A worker that attaches has no pool for a moment. */
export const ALL = '.+';

const ORIGINS: Record<Control, Origin> = {
  job: {
    name: 'job',
    label: 'Job',
    text: 'Job of Prometheus that scrapes the servers',
    query: `label_values(${SERVERS}, job)`,
  },
  instance: {
    name: 'instance',
    label: 'Server',
    text: 'Server',
    query: `label_values(${SERVERS}{job=~"$job"}, instance)`,
  },
  worker_job: {
    name: 'job',
    label: 'Job',
    text: 'Job of Prometheus that scrapes the workers',
    query: `label_values(${WORKERS}, job)`,
  },
  worker_instance: {
    name: 'instance',
    label: 'Worker',
    text: 'Worker',
    query: `label_values(${WORKERS.replace('}', ',job=~"$job"}')}, instance)`,
  },
  pool: {
    name: 'pool',
    label: 'Pool',
    text: 'Pool of workers',
    query: 'label_values(cloakwork_workers{job=~"$job"}, pool)',
  },
  parameter_set: {
    name: 'parameter_set',
    label: 'Parameter set',
    text: 'Parameter set of TFHE or CKKS',
    query: `label_values({__name__=~"${SETS}",job=~"$job"}, parameter_set)`,
  },
};

/** The choice of the data source. */
export function source(): Builder<dashboard.VariableModel> {
  return new dashboard.DatasourceVariableBuilder('datasource')
    .label('Data source')
    .type('prometheus')
    .multi(false)
    .includeAll(false);
}

/** Address below which the pages of docs/ are served. Links of panels begin with it. */
export const DOCS = 'https://docs.cloakwork.example';

export function documentation(docs = DOCS): Builder<dashboard.VariableModel> {
  const built = new dashboard.ConstantVariableBuilder('docs').label('Documentation').value(docs);
  return { build: () => ({ ...built.build(), hide: dashboard.VariableHide.HideVariable }) };
}

/** A filter with several values, and all of them at first. */
export function control(which: Control): Builder<dashboard.VariableModel> {
  const { name, label, text, query } = ORIGINS[which];
  const built = new dashboard.QueryVariableBuilder(name).label(label).description(text).datasource(SOURCE);
  built.query({ query, refId: 'PrometheusVariableQueryEditor-VariableQuery' }).definition(query);
  built.refresh(dashboard.VariableRefresh.OnTimeRangeChanged).sort(dashboard.VariableSort.AlphabeticalAsc);
  built.multi(true).includeAll(true).allValue(ALL).current({ text: 'All', value: '$__all', selected: true });
  return built;
}
