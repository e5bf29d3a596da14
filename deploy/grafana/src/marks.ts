// Events that boards mark on their panels: annotations, in the words of Grafana.

import type { Builder } from '@grafana/grafana-foundation-sdk/cog';
import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';

import { FAILED, VIOLET } from './colours.js';
import { SOURCE } from './panels.js';
import { events, series } from './promql.js';

export interface Mark {
  name: string;
  colour: string;
  /** Has a value while the event is new. */
  expr: string;
}

const owners = series('owner');

/** Events of servers that explain sudden changes. */
export const SERVER_EVENTS: Mark[] = [
  {
    name: 'Worker lost',
    colour: FAILED,
    expr: `${events(series('worker_disconnects_total', ['reason="lost"']), [], '1m')} > 0`,
  },
  { name: 'New owner', colour: VIOLET, expr: `max(${owners} == 1 unless ${owners} offset 1m == 1)` },
];

export function annotation({ name, colour, expr }: Mark): Builder<dashboard.AnnotationQuery> {
  return new dashboard.AnnotationQueryBuilder()
    .name(name)
    .datasource(SOURCE)
    .enable(true)
    .iconColor(colour)
    .expr(expr)
    .step('15s')
    .titleFormat(name);
}
