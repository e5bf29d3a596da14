// One short message after an action, such as "worker-3 drains". A newer one replaces it.

import { signal } from '@preact/signals';

const SHOWN_MS = 6000;

export const notice = signal<string | null>(null);

let timer: ReturnType<typeof setTimeout> | undefined;

export function notify(text: string): void {
  clearTimeout(timer);
  notice.value = text;
  timer = setTimeout(() => {
    notice.value = null;
  }, SHOWN_MS);
}
