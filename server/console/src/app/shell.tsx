// The frame around every page: the name, the list of pages, and who is signed in. On a phone the list
// lies at the bottom.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { leave } from '../api/sign-in.js';
import type { Session } from '../api/contract.js';
import { Icon, Mark, type IconName } from '../parts/icons.js';
import { Name } from '../parts/name.js';
import { route } from '../state/location.js';
import { notice, notify } from '../state/notice.js';
import { addressOf, type PageName } from '../state/router.js';
import { chooseNextTheme, theme } from '../state/theme.js';
import { Banner } from './banner.js';

interface Entry {
  page: PageName & IconName;
  label: string;
  /** Pages that lie below this one. */
  below: PageName[];
}

const ENTRIES: Entry[] = [
  { page: 'overview', label: 'Overview', below: [] },
  { page: 'jobs', label: 'Jobs', below: ['job'] },
  { page: 'keys', label: 'Keys', below: [] },
  { page: 'tenants', label: 'Tenants', below: ['tenant'] },
  { page: 'errors', label: 'Errors', below: ['error'] },
  { page: 'audit', label: 'Audit', below: [] },
];

export function Shell({ session, children }: { session: Session; children: ComponentChildren }) {
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const { page } = route.value;
  const address = location.hash;

  // Keyboards and screen readers continue at the new page, and not at the link that led to it.
  useEffect(() => {
    if (!isFirst.current) {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [address]);

  const skip = (event: Event) => {
    // The address belongs to the router.
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="brand">
        <a class="brand-link" href={addressOf('overview')}>
          <Mark />
          <span>Cloakwork</span>
        </a>
      </header>
      <nav class="pages" aria-label="Pages">
        <ul>
          {ENTRIES.map(entry => (
            <li key={entry.page}>
              <a href={addressOf(entry.page)} aria-current={currentOf(entry, page)}>
                <Icon name={entry.page} />
                <span>{entry.label}</span>
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Tools session={session} />
      <main id="main" class="main" tabIndex={-1} ref={main}>
        <Banner />
        {children}
      </main>
      <div class="notice-place" role="status">
        {notice.value !== null && (
          <p class="notice">
            <bdi>{notice.value}</bdi>
          </p>
        )}
      </div>
    </div>
  );
}

function currentOf({ page, below }: Entry, shown: PageName | null): 'page' | 'true' | undefined {
  if (shown === page) return 'page';
  return shown !== null && below.includes(shown) ? 'true' : undefined;
}

function Tools({ session }: { session: Session }) {
  const signOut = () => {
    leave().catch((error: unknown) => notify(error instanceof Error ? error.message : String(error)));
  };
  return (
    <aside class="tools" aria-label="Session">
      <p class="tools-actor">
        <Name text={session.actor} />
        <small>{session.can_write ? 'may write' : 'read only'}</small>
      </p>
      <button
        type="button"
        class="tool"
        onClick={chooseNextTheme}
        aria-label={`Theme: ${theme.value}. Change it`}
        title={`Theme: ${theme.value}`}
      >
        <Icon name={theme.value} />
      </button>
      <button type="button" class="tool" onClick={signOut} aria-label="Sign out" title="Sign out">
        <Icon name="leave" />
      </button>
    </aside>
  );
}
