// Signing in: with a link that works once, or with a token. Neither is kept.

import { enter, signIn } from '../api/sign-in.js';
import { Mark } from '../parts/icons.js';

export function LoginPage() {
  const { isActing, failure } = signIn.value;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const token = String(new FormData(form).get('token') ?? '').trim();
    form.reset();
    if (token !== '') void enter({ token });
  };

  return (
    <main class="login" id="main" tabIndex={-1}>
      <div class="login-card">
        <Mark />
        <h1>Cloakwork</h1>
        <p class="login-lead">
          The console of this server. Sign in with a token that has the scope <code>admin</code>.
        </p>
        <form class="login-form" onSubmit={submit}>
          <label for="token">Token</label>
          <input
            id="token"
            name="token"
            type="password"
            placeholder="cw_…"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            required
            maxLength={8192}
            aria-describedby="login-note"
          />
          {failure !== null && (
            <p class="login-failure" role="alert">
              <bdi>{failure}</bdi>
            </p>
          )}
          <button type="submit" class="button button-main button-wide" disabled={isActing}>
            {isActing ? 'Signing in' : 'Sign in'}
          </button>
        </form>
        <p class="login-note" id="login-note">
          The browser does not keep the token. A link that signs in once, from the server's command line, works too.
        </p>
      </div>
    </main>
  );
}
