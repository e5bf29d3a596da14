// Stands in place of data that are not there: still loading, none yet, or refused.

import type { ComponentChildren } from 'preact';

import type { RefusedError } from '../api/client.js';
import type { Polled } from '../api/polled.js';
import { addressOf } from '../state/router.js';
import { Mark } from './icons.js';

export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <i key={index} class="loading-row" />
      ))}
    </div>
  );
}

/** `children` names the next step. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Mark />
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Refused({ refusal }: { refusal: RefusedError }) {
  return (
    <div class="refused" role="alert">
      <p>
        <bdi>{refusal.message}</bdi>
      </p>
      <a href={addressOf('error', { reason: refusal.reason })}>{refusal.reason}</a>
    </div>
  );
}

interface Props<Answer> {
  polled: Polled<Answer>;
  rows?: number;
  children: (data: Answer) => ComponentChildren;
}

/** Shows the data, with a refusal of the last try above them. */
export function Loaded<Answer>({ polled: { data, refusal }, rows = 4, children }: Props<Answer>) {
  return (
    <>
      {refusal && <Refused refusal={refusal} />}
      {data !== null ? children(data) : !refusal && <Loading rows={rows} />}
    </>
  );
}
