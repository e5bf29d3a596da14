// Signing in and out, and who may write.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CSRF, GOOD_LINK, GOOD_TOKEN } from '../mock/server.js';
import { harness, settled, until } from './harness.js';

const { mock, visit } = harness();

function posts(path: string) {
  return mock().seen.filter(call => call.method === 'POST' && call.path === path);
}

test('a link signs in, and leaves the address and the history', async () => {
  const { page, problems } = await visit(`#/login?link=${GOOD_LINK}`, { hasSession: false });
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  assert.equal(new URL(page.url()).hash, '#/overview');
  assert.deepEqual(JSON.parse(posts('login')[0]?.body ?? ''), { link: GOOD_LINK });
  assert.equal(posts('login').length, 1, 'a link works once, so it is sent once');
  await page.goBack();
  assert.ok(!page.url().includes(GOOD_LINK), page.url());
  assert.deepEqual(problems, []);
});

test('a link that was used says so, and the token signs in', async () => {
  const { page } = await visit('#/login?link=used', { hasSession: false });
  await page.getByRole('alert').getByText('not valid').waitFor();
  assert.ok(!page.url().includes('used'), page.url());
  await page.getByLabel('Token').fill(GOOD_TOKEN);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
});

test('the browser keeps nothing of a token', async () => {
  const { page } = await visit('', { hasSession: false });
  await page.getByLabel('Token').fill(GOOD_TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  const kept = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]),
  );
  assert.ok(!kept.includes(GOOD_TOKEN), kept);
  const names = await page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
  assert.deepEqual(names, []);
});

test('a wrong token is refused, and leaves the field', async () => {
  const { page } = await visit('', { hasSession: false });
  await page.getByLabel('Token').fill('cw_wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('not valid').waitFor();
  assert.equal(await page.getByLabel('Token').inputValue(), '');
});

test('a session that ends leads to the sign-in, and back to the same page', async () => {
  const { page } = await visit('#/jobs');
  await settled(page);
  mock().endSessions();
  await page.getByLabel('Token').waitFor();
  await page.getByLabel('Token').fill(GOOD_TOKEN);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Jobs' }).waitFor();
});

test('signing out ends the session', async () => {
  const { page } = await visit('#/overview');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  assert.equal(posts('logout')[0]?.csrf, CSRF);
});

test('each call carries the CSRF token, and login does not', async () => {
  const { page } = await visit('', { hasSession: false });
  await page.getByLabel('Token').fill(GOOD_TOKEN);
  await page.keyboard.press('Enter');

  await page.getByRole('button', { name: 'Drain rack-1-gpu' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
  await page.getByText('rack-1-gpu gets no more jobs', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Resume rack-1-gpu' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('button', { name: 'Drain rack-1-gpu' }).waitFor();

  await page.getByRole('navigation').getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('row').filter({ hasText: 'computing' }).first().getByRole('link').click();
  await page.getByRole('button', { name: 'Cancel job' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel job' }).click();
  await page.getByText('The job is cancelled').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();

  const reads = mock().seen.filter(({ method, path }) => method === 'GET' && path !== 'session');
  assert.ok(reads.length > 3 && reads.every(({ csrf }) => csrf === CSRF), JSON.stringify(reads));
  const writes = mock().seen.filter(({ method }) => method === 'POST');
  assert.deepEqual(
    writes.map(({ path, csrf }) => [path, csrf]),
    [
      ['login', undefined],
      ['drain', CSRF],
      ['resume', CSRF],
      ['cancel', CSRF],
      ['logout', CSRF],
    ],
  );
  assert.ok(writes[3]?.body.includes('/jobs/'), writes[3]?.body);
});

test('nothing is written without a confirmation', async () => {
  const { page } = await visit('#/overview');
  await page.getByRole('button', { name: 'Drain rack-1-gpu' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Back' }).click();
  await page.getByRole('button', { name: 'Drain rack-1-gpu' }).click();
  await page.keyboard.press('Escape');
  await until('the dialog closes', async () => (await page.getByRole('dialog').count()) === 0);
  assert.deepEqual(posts('drain'), []);
});

test('the dialog shows why the server refused', async () => {
  const { page } = await visit('#/overview');
  await page.getByRole('button', { name: 'Drain rack-1-gpu' }).click();
  mock().scene.canWrite = false;
  await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
  await page.getByRole('dialog').getByText('this session may only read').waitFor();
});

test('a session that may only read has no button that writes', async () => {
  mock().scene.canWrite = false;
  const { page } = await visit('#/overview');
  await page.getByText('rack-1-gpu').first().waitFor();
  assert.equal(await page.getByRole('button', { name: /Drain|Resume|Cancel/ }).count(), 0);
});
