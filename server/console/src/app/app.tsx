// Decides between the sign-in, the frame with a page, and the time before the server has answered.

import { useEffect } from 'preact/hooks';

import { signIn } from '../api/sign-in.js';
import { Mark } from '../parts/icons.js';
import { LoginPage } from '../pages/login.js';
import { replacePage, route } from '../state/location.js';
import { session } from '../state/session.js';
import { Banner } from './banner.js';
import { Guard } from './guard.js';
import { Shell } from './shell.js';
import { PAGE_TITLES, RoutedPage } from './routed-page.js';

export function App() {
  const { page } = route.value;
  const signedIn = session.value;
  const { isActing } = signIn.value;
  const isPastLogin = signedIn !== null && signedIn !== 'unknown' && page === 'login' && !isActing;

  useEffect(() => {
    if (isPastLogin) replacePage('overview');
  }, [isPastLogin]);
  useEffect(() => {
    const title = page && (signedIn !== null ? PAGE_TITLES[page] : PAGE_TITLES.login);
    document.title = `${title ?? 'Not found'} · Cloakwork`;
  }, [page, signedIn]);

  if (isActing || signedIn === null) {
    return (
      <>
        <Banner />
        <LoginPage />
      </>
    );
  }
  if (signedIn === 'unknown') {
    return (
      <main class="login" id="main">
        <Banner />
        <div class="waiting" role="status" aria-label="Waiting for the server">
          <Mark />
        </div>
      </main>
    );
  }
  return (
    <Shell session={signedIn}>
      <Guard key={location.hash}>
        <RoutedPage route={route.value} />
      </Guard>
    </Shell>
  );
}
