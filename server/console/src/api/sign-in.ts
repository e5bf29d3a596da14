// Signing in and out. A token or the code of a link goes to the server once, and is kept nowhere.

import { effect, signal } from '@preact/signals';

import { replacePage, route } from '../state/location.js';
import { notify } from '../state/notice.js';
import { currentSession, session, storeCsrf } from '../state/session.js';
import { nextDelayMs } from './backoff.js';
import { RefusedError, read, write } from './client.js';
import type { Session, SignedIn } from './contract.js';

type Proof = { token: string } | { link: string };

export const signIn = signal<{ isActing: boolean; failure: string | null }>({ isActing: false, failure: null });

/** Finds out who is signed in: by the link in the address, if there is one, and by the cookie otherwise. */
export function startSession(): void {
  let isFirst = true;
  effect(() => {
    const { page, parameters } = route.value;
    const link = page === 'login' ? (parameters.get('link') ?? '') : '';
    if (link !== '') {
      // The code leaves the address bar and the history before it is used.
      replacePage('login');
      void enter({ link });
    } else if (isFirst) {
      void findSession();
    }
    isFirst = false;
  });
}

export async function enter(proof: Proof): Promise<void> {
  signIn.value = { isActing: true, failure: null };
  let failure: string | null = null;
  try {
    const { csrf, ...begun } = await write<SignedIn>('login', proof);
    storeCsrf(csrf);
    session.value = begun;
    if (route.peek().page === 'login') replacePage('overview');
  } catch (error) {
    failure = error instanceof Error ? error.message : String(error);
    // A link that no longer works leaves an older session as it is.
    if (session.peek() === 'unknown') await findSession();
    if (currentSession()) notify(failure);
  }
  signIn.value = { isActing: false, failure };
}

export async function leave(): Promise<void> {
  await write('logout', {});
  signIn.value = { isActing: false, failure: null };
  storeCsrf(null);
  session.value = null;
}

/** Asks for the session until the server answers. */
async function findSession(): Promise<void> {
  for (let failures = 1; session.peek() === 'unknown'; failures += 1) {
    try {
      session.value = await read<Session>('session');
    } catch (error) {
      // Any other refusal is a failure of the server, which may pass.
      if (error instanceof RefusedError && error.status < 500) session.value = null;
      else await new Promise(resolve => setTimeout(resolve, nextDelayMs(1000, failures)));
    }
  }
}
