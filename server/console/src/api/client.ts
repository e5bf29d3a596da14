// Calls of the server. Every call reports whether the server answers, and an answer 401 ends the
// session in the browser. Every call but login carries the CSRF token of the session.

import { reportAnswer, reportSilence } from '../state/connection.js';
import { session, storedCsrf } from '../state/session.js';
import type { Refusal } from './contract.js';

const BASE = `${import.meta.env.BASE_URL}api/`;
/** A server that takes longer counts as gone. */
const TIMEOUT_MS = 10_000;

/** The server answered, and refused the call. */
export class RefusedError extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

/** No usable answer: the network, a proxy, or a server that is not there. */
export class SilentError extends Error {}

/** Optional parameters that are undefined are left out. */
export type Query = Readonly<Record<string, string | undefined>>;

export function read<Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer> {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const search = new URLSearchParams(given).toString();
  return call(path + (search === '' ? '' : `?${search}`), { method: 'GET', headers: proof() }, signal);
}

export function write<Answer>(path: string, body: unknown): Promise<Answer> {
  const headers = { 'Content-Type': 'application/json', ...(path === 'login' ? {} : proof()) };
  return call(path, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** The proof that a call comes from a page that has signed in. Other ports of the host get the cookie too. */
function proof(): Record<string, string> {
  const csrf = storedCsrf();
  return csrf === null ? {} : { 'X-CSRF-Token': csrf };
}

async function call<Answer>(path: string, init: RequestInit, signal?: AbortSignal): Promise<Answer> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const sessionBefore = session.peek();
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(BASE + path, {
      ...init,
      cache: 'no-store',
      credentials: 'same-origin',
      mode: 'same-origin',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    body = await response.json().catch(() => null);
  } catch (error) {
    // The caller has gone to another page: this says nothing about the server.
    if (signal?.aborted) throw error;
    reportSilence();
    throw new SilentError('The server does not answer');
  }
  if (response.ok && body !== null) {
    reportAnswer();
    return body as Answer;
  }
  const refusal = refusalIn(body);
  // A proxy answers 502 to 504 without the server's form of errors.
  if (!refusal && response.status !== 401) {
    reportSilence();
    throw new SilentError(`The server does not answer: status ${response.status}`);
  }
  reportAnswer();
  // A late answer to a call of an older session does not end a newer one.
  if (response.status === 401 && path !== 'login' && session.peek() === sessionBefore) session.value = null;
  throw new RefusedError(response.status, refusal?.reason ?? 'UNAUTHENTICATED', refusal?.message ?? 'Sign in first');
}

function refusalIn(body: unknown): Refusal['error'] | null {
  const error = (body as Partial<Refusal> | null)?.error;
  return typeof error?.reason === 'string' && typeof error.message === 'string' ? error : null;
}
