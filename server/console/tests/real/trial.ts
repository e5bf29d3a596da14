// The console of a real server, in Chromium, while jobs run. Each page must show what the server
// knows, in both themes, without an error and without a violation of the policy. With a second
// argument, the pages are drawn into that directory.
//
// CLOAKWORK_SERVER_PROGRAM and CLOAKWORK_PROGRAM name the server and the command line.

import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { chromium, type Browser, type Page } from 'playwright-core';

const SERVER = process.env['CLOAKWORK_SERVER_PROGRAM'] ?? 'cloakwork-server';
const CLIENT = process.env['CLOAKWORK_PROGRAM'] ?? 'cloakwork';
const PROGRAM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
const [loadSeconds = '20', pictures] = process.argv.slice(2);

/** Ports that are free at this moment. */
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
      return server;
    }),
  );
  const ports = servers.map(server => (server.address() as { port: number }).port);
  await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))));
  return ports;
}

/** A server with a tenant of its own and a key. */
class Installation {
  readonly directory = mkdtempSync(join(tmpdir(), 'cloakwork-console-'));
  private process: ChildProcess | undefined;
  private environment: NodeJS.ProcessEnv = {};
  admin = '';

  async start(): Promise<void> {
    const data = join(this.directory, 'data');
    const run = (...options: string[]) =>
      execFileSync(SERVER, [...options, '--data', data], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim();
    for (const tenant of ['acme', 'night-shift']) run('tenant', 'create', tenant);
    const token = run('token', 'create', '--tenant', 'acme');
    const [api, admin] = await freePorts(2);
    this.admin = `http://127.0.0.1:${admin}`;
    const listen = ['--listen', `127.0.0.1:${api}`, '--admin-listen', `127.0.0.1:${admin}`];
    const settings = ['--set', 'auth.anonymous=false', '--set', 'console.writes=true'];
    this.process = spawn(SERVER, ['serve', ...listen, '--data', data, ...settings], { stdio: 'ignore' });
    for (
      let tries = 0;
      !(await fetch(`${this.admin}/readyz`).then(
        answer => answer.ok,
        () => false,
      ));
      tries += 1
    ) {
      assert.ok(tries < 300, 'the server is not ready');
      await new Promise(resolve => setTimeout(resolve, 100));
    }
    this.environment = {
      ...process.env,
      CLOAKWORK_TOKEN: token,
      CLOAKWORK_SERVER: `http://127.0.0.1:${api}`,
      XDG_CONFIG_HOME: join(this.directory, 'config'),
    };
    await this.client('keygen');
    await this.client('keys', 'push');
  }

  async client(...options: string[]): Promise<void> {
    await promisify(execFile)(CLIENT, options, { cwd: this.directory, env: this.environment });
  }

  link(): string {
    return execFileSync(SERVER, ['console', '--data', join(this.directory, 'data')], { encoding: 'utf8' }).trim();
  }

  async stop(): Promise<void> {
    const server = this.process;
    if (server?.exitCode === null) {
      const ended = new Promise(resolve => server.once('exit', resolve));
      server.kill('SIGTERM');
      await ended;
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Runs jobs of several sizes until the time is over. Returns their number. */
async function load(installation: Installation, seconds: number): Promise<number> {
  const end = Date.now() + seconds * 1000;
  const values = (count: number) => Array.from({ length: count }, (_, index) => index % 4).join(',');
  const caller = async (count: number): Promise<number> => {
    let jobs = 0;
    for (; Date.now() < end; jobs += 1) await installation.client('pbs', '--fn', 'square', '--values', values(count));
    return jobs;
  };
  const counts = await Promise.all([1, 8, 48, 160].map(caller));
  return counts.reduce((sum, count) => sum + count, 0);
}

const problems: string[] = [];

async function open(browser: Browser, theme: 'dark' | 'light'): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    colorScheme: theme,
    deviceScaleFactor: 1.5,
  });
  const page = await context.newPage();
  page.on('pageerror', error => problems.push(`exception: ${error.message}`));
  page.on('console', message => {
    if (message.type() === 'error') problems.push(`console: ${message.text()}`);
  });
  return page;
}

async function settle(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.waitForFunction(() => document.querySelector('.loading, .waiting') === null);
  // Charts draw in the next frames.
  await page.waitForTimeout(700);
}

async function visit(page: Page, origin: string, theme: string): Promise<void> {
  const show = async (name: string, hash: string, ...texts: string[]) => {
    await page.goto(`${origin}/console/${hash}`);
    await settle(page);
    const text = await page.locator('main').innerText();
    for (const wanted of texts) assert.ok(text.includes(wanted), `${name} does not show ${wanted}:\n${text}`);
    if (pictures !== undefined) await page.screenshot({ path: join(pictures, `${name}-${theme}.png`), fullPage: true });
  };
  await show('overview', '#/overview', 'embedded', 'cpu', 'ready');
  await show('jobs', '#/jobs', 'acme', 'succeeded');
  const link = page.locator('main a[href*="#/job?"]').first();
  const job = (await link.getAttribute('href')) ?? assert.fail('no job is listed');
  await show('job', job.slice(job.indexOf('#')), 'blind rotate', 'wave');
  await show('keys', '#/keys', 'acme', 'embedded');
  await show('tenants', '#/tenants', 'acme', 'night-shift');
  await show('errors', '#/errors');
  await show('audit', '#/audit', 'create tenant', 'command line');
}

const installation = new Installation();
const browser = await chromium.launch({
  executablePath: PROGRAM,
  args: ['--no-sandbox', '--force-color-profile=srgb'],
});
try {
  if (pictures !== undefined) mkdirSync(pictures, { recursive: true });
  await installation.start();
  const loading = load(installation, Number(loadSeconds));
  // The pages are visited while jobs still run.
  await new Promise(resolve => setTimeout(resolve, Number(loadSeconds) * 800));
  for (const theme of ['dark', 'light'] as const) {
    const page = await open(browser, theme);
    await page.goto(installation.link());
    await page.waitForURL(/#\/overview/);
    await visit(page, installation.admin, theme);
    await page.context().close();
  }
  const jobs = await loading;
  assert.deepEqual(problems, []);
  console.log(`The pages show a real server that ran ${jobs} jobs in ${loadSeconds} seconds.`);
} finally {
  await browser.close();
  await installation.stop();
}
