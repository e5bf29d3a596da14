// How pages behave: a server that goes and comes back, keyboards, the theme, and long lists.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { harness, settled, until } from './harness.js';

const { mock, visit } = harness();

for (const reach of ['gone', 'proxy'] as const) {
  test(`the page keeps its data while the server is gone (${reach}), and goes on afterwards`, async () => {
    const { page } = await visit('#/overview');
    await settled(page);
    mock().scene.reach = reach;
    await page.getByText('The server does not answer').waitFor();
    assert.ok(await page.getByText('rack-1-gpu').first().isVisible(), 'the last data stay');
    mock().scene.reach = 'usual';
    await until('the banner goes', async () => (await page.getByText('The server does not answer').count()) === 0);
  });
}

test('tries become rare while the server is gone', async () => {
  const { page } = await visit('#/overview');
  await settled(page);
  // The pauses that the page asks for, in milliseconds.
  await page.evaluate(() => {
    const pauses: number[] = [];
    const original = window.setTimeout.bind(window);
    const recorded = (handler: TimerHandler, pause?: number) => {
      pauses.push(pause ?? 0);
      return original(handler, pause);
    };
    Object.assign(window, { setTimeout: recorded, pauses });
  });
  mock().scene.reach = 'gone';
  const pauses = () =>
    page.evaluate(() => (window as unknown as { pauses: number[] }).pauses.filter(pause => pause >= 2000));
  await until('the third failure', async () => (await pauses()).includes(8000), 30_000);
  assert.deepEqual((await pauses()).slice(-3), [2000, 4000, 8000]);
});

test('a console that opens before its server waits for it', async () => {
  const { page } = await visit('#/overview');
  await settled(page);
  mock().scene.reach = 'gone';
  await page.reload();
  await page.getByText('The server does not answer').waitFor();
  mock().scene.reach = 'usual';
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
});

test('a refused call shows its message and leads to its page', async () => {
  const { page } = await visit('#/job?name=tenants%2Fa%2Fjobs%2Fnone');
  await page.getByText('there is no job with this name').waitFor();
  await page.getByRole('link', { name: 'JOB_NOT_FOUND' }).click();
  await page.getByRole('heading', { name: 'What to do' }).waitFor();
});

test('a failed job leads to the page of its reason', async () => {
  const { page } = await visit('#/jobs');
  await page.getByRole('row').filter({ hasText: 'WORKER_OUT_OF_MEMORY' }).first().getByRole('link').click();
  await page.getByRole('link', { name: /WORKER_OUT_OF_MEMORY/ }).click();
  await page.getByRole('heading', { name: 'What happened' }).waitFor();
});

test('the list of jobs grows by pages, and its first page stays fresh', async () => {
  const { page } = await visit('#/jobs');
  await settled(page);
  const rows = () => page.getByRole('row').count();
  assert.equal(await rows(), 51);
  await page.getByRole('button', { name: 'Load more' }).click();
  await until('the second page', async () => (await rows()) === 101);
  await page.getByRole('button', { name: 'Load more' }).click();
  await until('the last page', async () => (await rows()) === 131);
  assert.equal(await page.getByRole('button', { name: 'Load more' }).count(), 0);
  const calls = () => mock().seen.filter(({ path, query }) => path === 'jobs' && !query.has('before')).length;
  const before = calls();
  await until('the first page is read again', () => calls() > before);
  assert.equal(await rows(), 131);
});

test('the jobs of a tenant are found by their state', async () => {
  const { page } = await visit('#/tenants');
  await page.getByRole('row').nth(1).getByRole('link').first().click();
  await page.getByLabel('Facts').getByRole('link').click();
  const states = page.getByRole('navigation', { name: 'State' });
  await states.getByRole('link', { name: 'failed' }).click();
  await until('only failed jobs', async () => {
    const rows = await page.locator('tbody tr').allTextContents();
    return rows.length > 0 && rows.every(row => row.includes('failed'));
  });
  assert.equal(await states.locator('[aria-current]').textContent(), 'failed');
  await states.getByRole('link', { name: 'cancelled' }).click();
  await page.getByText('This tenant has no cancelled job').or(page.locator('tbody tr').first()).waitFor();
  await page.getByRole('link', { name: 'Jobs of all tenants' }).click();
  await until('all jobs', async () => (await page.getByRole('row').count()) === 51);
});

test('the waterfall lies as the stages do', async () => {
  const { page } = await visit('#/jobs');
  await page.getByRole('row').filter({ hasText: 'succeeded' }).first().getByRole('link').click();
  await page.locator('.stage').first().waitFor();
  const bars = await page.locator('.stage-bar').evaluateAll(elements =>
    elements.map(element => {
      const track = element.parentElement?.getBoundingClientRect();
      const bar = element.getBoundingClientRect();
      return { begin: bar.left - (track?.left ?? 0), end: bar.right - (track?.left ?? 0), track: track?.width ?? 0 };
    }),
  );
  assert.equal(bars.length, 11);
  bars.slice(1).forEach((bar, index) => {
    const before = bars[index];
    // Bars are at least two pixels wide, so a short one may reach over the next.
    assert.ok(before && bar.begin >= before.begin - 0.5 && bar.begin <= before.end + 0.5, `bar ${index + 1}`);
  });
  const last = bars.at(-1);
  assert.ok(last && last.end <= last.track + 2.5 && last.end > last.track * 0.98, 'the last bar ends at the right');
});

test('a keyboard reaches the content, and the page that it opens', async () => {
  const { page } = await visit('#/overview');
  await settled(page);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Skip to the content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'main');
  assert.equal(new URL(page.url()).hash, '#/overview');
  await page.getByRole('navigation').getByRole('link', { name: 'Keys' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Keys' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'main');
  assert.equal(await page.title(), 'Keys · Cloakwork');
});

test('the theme follows the choice, and is kept', async () => {
  const { page } = await visit('#/overview', { theme: 'dark' });
  const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
  const button = page.getByRole('button', { name: /^Theme/ });
  assert.equal(await scheme(), 'light dark');
  await button.click();
  assert.equal(await scheme(), 'light');
  await button.click();
  assert.equal(await scheme(), 'dark');
  await page.reload();
  await settled(page);
  assert.equal(await scheme(), 'dark');
});

test('on a phone the pages lie at the bottom, and rows are cards', async () => {
  const { page } = await visit('#/jobs', { size: 'phone' });
  await settled(page);
  const box = await page.getByRole('navigation').boundingBox();
  assert.ok(box && box.y > 600 && box.y + box.height <= 740, JSON.stringify(box));
  const row = await page.getByRole('row').nth(1).boundingBox();
  assert.ok(row && row.height > 120, JSON.stringify(row));
});
