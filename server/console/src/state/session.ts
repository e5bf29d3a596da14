// The session as the server describes it. The session itself is a cookie that scripts cannot read, and
// no token is ever here. The CSRF token lasts as long as the tab, and only pages of this port read it.

import { signal } from '@preact/signals';

import type { Session } from '../api/contract.js';

/** `unknown` until the server has answered for the first time, null without a session. */
export const session = signal<Session | null | 'unknown'>('unknown');

export function currentSession(): Session | null {
  return session.value === 'unknown' ? null : session.value;
}

export function mayWrite(): boolean {
  return currentSession()?.can_write ?? false;
}

const CSRF_KEY = 'cloakwork-csrf';

/** A browser without storage keeps the CSRF token until the page is loaded again. */
let csrfOfPage: string | null = null;

export function storedCsrf(): string | null {
  try {
    return csrfOfPage ?? sessionStorage.getItem(CSRF_KEY);
  } catch {
    return csrfOfPage;
  }
}

export function storeCsrf(csrf: string | null): void {
  csrfOfPage = csrf;
  try {
    if (csrf === null) sessionStorage.removeItem(CSRF_KEY);
    else sessionStorage.setItem(CSRF_KEY, csrf);
  } catch {
    // The page works until it is loaded again.
  }
}
