// A Chromium and a mock server for one file of tests. Each visit records what a page must never do.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, beforeEach } from 'node:test';

import { chromium, type Browser, type Page } from 'playwright-core';

import { CSRF, startMock, type Mock } from '../mock/server.js';
import { BLOCK_JOB, FAILED_JOB, jobs, RUNNING_JOB, VECTOR_JOB } from '../mock/jobs.js';
import { USUAL_TEXTS, type Texts } from '../mock/texts.js';

export const DIST = process.env['CONSOLE_DIST'] ?? 'dist';
const PROGRAM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const SIZES = {
  desktop: { width: 1440, height: 900 },
  phone: { width: 360, height: 740 },
} as const;
/** A time of the data that is the same in each test of a run, so that names stay the same. */
export const NOW_MICROS = Date.now() * 1000;

/** Addresses of all pages, with the texts that name tenants. */
export function addresses(texts: Texts = USUAL_TEXTS): Record<string, string> {
  const all = jobs(NOW_MICROS, texts);
  const job = (index: number) => `#/job?name=${encodeURIComponent(all[index]?.name ?? '')}`;
  return {
    overview: '#/overview',
    jobs: '#/jobs',
    'jobs of a tenant': `#/jobs?tenant=${encodeURIComponent(texts.tenant(0))}&state=succeeded`,
    'job on blocks': job(BLOCK_JOB),
    'job on vectors': job(VECTOR_JOB),
    'failed job': job(FAILED_JOB),
    'running job': job(RUNNING_JOB),
    keys: '#/keys',
    tenants: '#/tenants',
    tenant: `#/tenant?name=${encodeURIComponent(texts.tenant(0))}`,
    errors: '#/errors',
    error: '#/error?reason=QUOTA_EXCEEDED',
    'unknown error': '#/error?reason=NO_SUCH_REASON',
    audit: '#/audit',
    'not found': '#/nothing',
  };
}

export interface VisitOptions {
  theme?: 'dark' | 'light';
  size?: keyof typeof SIZES;
  hasSession?: boolean;
}

export interface Visit {
  page: Page;
  /** Errors of the console, exceptions, violations of the policy, and calls of other origins. */
  problems: string[];
}

/** Starts a browser and a server before the tests of a file, and returns how to open a page. */
export function harness(): { mock: () => Mock; visit: (hash: string, options?: VisitOptions) => Promise<Visit> } {
  let browser: Browser;
  let mock: Mock;
  before(async () => {
    mock = await startMock(DIST);
    browser = await chromium.launch({ executablePath: PROGRAM, args: ['--no-sandbox'] });
  });
  beforeEach(async () => {
    mock.reset();
    mock.scene.nowMicros = NOW_MICROS;
    for (const context of browser.contexts()) await context.close();
  });
  after(async () => {
    await browser.close();
    await mock.close();
  });

  const visit = async (hash: string, options: VisitOptions = {}): Promise<Visit> => {
    const { theme = 'dark', size = 'desktop', hasSession = true } = options;
    const context = await browser.newContext({
      viewport: SIZES[size],
      colorScheme: theme,
      reducedMotion: 'reduce',
      hasTouch: size === 'phone',
    });
    context.setDefaultTimeout(10_000);
    if (hasSession) await context.addCookies([{ ...mock.cookie, url: `${mock.origin}/console/` }]);
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('console', message => {
      // The browser itself reports each answer with an error status, which some tests want.
      const isAnswer = message.text().startsWith('Failed to load resource');
      if (['error', 'warning'].includes(message.type()) && !isAnswer) problems.push(`console: ${message.text()}`);
    });
    page.on('pageerror', error => problems.push(`exception: ${error.message}`));
    page.on('request', request => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== mock.origin && protocol !== 'data:') problems.push(`another origin: ${request.url()}`);
    });
    if (hasSession) await page.addInitScript(csrf => sessionStorage.setItem('cloakwork-csrf', csrf), CSRF);
    await page.exposeFunction('reportViolation', (text: string) => problems.push(`policy: ${text}`));
    await page.addInitScript(() => {
      const { reportViolation } = window as unknown as { reportViolation: (text: string) => void };
      document.addEventListener('securitypolicyviolation', event => {
        reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
    await page.goto(`${mock.origin}/console/${hash}`);
    return { page, problems };
  };
  return { mock: () => mock, visit };
}

/** Waits until a page shows its data. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.waitForFunction(() => document.querySelector('.loading, .waiting') === null);
}

/** Rules of accessibility that a page breaks, with the elements. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: typeof import('axe-core') };
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    return violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .map(({ html }) => html.slice(0, 200))
          .slice(0, 3)
          .join(' | ')}`,
    );
  });
}

/** How many pixels a page is wider than the screen. */
export async function overflowPx(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, timeoutMs = 15_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `${what}: not within ${timeoutMs} ms`);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}
