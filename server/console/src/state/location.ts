// The page that is shown.

import { signal } from '@preact/signals';

import { addressOf, parseRoute, type PageName } from './router.js';

/** Follows the address bar from `followAddress` on. */
export const route = signal(parseRoute(''));

export function followAddress(): void {
  const read = () => {
    route.value = parseRoute(location.hash);
  };
  addEventListener('hashchange', read);
  read();
}

/** Shows another page in place of this one, so that "back" skips this one. */
export function replacePage(page: PageName): void {
  history.replaceState(null, '', addressOf(page));
  route.value = parseRoute(location.hash);
}
