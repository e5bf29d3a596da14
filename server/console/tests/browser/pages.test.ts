// Each page in both themes and sizes: it shows its data, breaks no rule of accessibility or of the
// policy, and fits the screen. Colours depend on the theme and places on the size, so that two looks
// show a page in each. The frame of all pages is looked at in all four.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { accessibilityFaults, addresses, harness, overflowPx, settled, SIZES } from './harness.js';

const { mock, visit } = harness();

/** A text that a page shows only with its data. */
const SHOWN: Readonly<Record<string, string>> = {
  overview: 'rack-1-gpu',
  jobs: 'Load more',
  'jobs of a tenant': 'Jobs of all tenants',
  'job on blocks': 'blind rotate',
  'job on vectors': 'bootstrap.to_coefficients',
  'failed job': 'WORKER_OUT_OF_MEMORY',
  'running job': 'The job has not ended',
  keys: 'acme-health',
  tenants: 'northwind',
  tenant: 'tenant_queued_jobs',
  errors: 'Register the evaluation key first',
  error: 'The tenant has reached a limit on its stored data',
  'unknown error': 'No page for this reason',
  audit: 'deploy-bot',
  'not found': 'The console has no page at this address',
};

type Size = keyof typeof SIZES;
type Look = readonly ['dark' | 'light', Size];

const LOOKS: readonly Look[] = [
  ['dark', 'desktop'],
  ['light', 'phone'],
];
const OTHER_LOOKS: readonly Look[] = [
  ['light', 'desktop'],
  ['dark', 'phone'],
];

for (const [name, hash] of Object.entries(addresses())) {
  const looks = name === 'overview' ? [...LOOKS, ...OTHER_LOOKS] : LOOKS;
  for (const [theme, size] of looks) {
    test(`${name}, ${theme}, ${size}`, async () => {
      const { page, problems } = await visit(hash, { theme, size });
      await settled(page);
      await page
        .getByText(SHOWN[name] ?? '', { exact: false })
        .first()
        .waitFor();
      assert.deepEqual(await accessibilityFaults(page), []);
      assert.ok((await overflowPx(page)) <= 0, 'wider than the screen');
      assert.deepEqual(problems, []);
    });
  }
}

for (const [theme, size] of LOOKS) {
  test(`sign-in, ${theme}, ${size}`, async () => {
    const { page, problems } = await visit('', { theme, size, hasSession: false });
    await page.getByLabel('Token').waitFor();
    assert.deepEqual(await accessibilityFaults(page), []);
    assert.ok((await overflowPx(page)) <= 0, 'wider than the screen');
    assert.deepEqual(problems, []);
  });
}

test('a dialog breaks no rule either', async () => {
  const { page } = await visit('#/overview');
  await page.getByRole('button', { name: 'Drain rack-1-gpu' }).click();
  await page.getByRole('dialog').waitFor();
  assert.deepEqual(await accessibilityFaults(page), []);
});

for (const [name, hash] of Object.entries(addresses())) {
  if (name.includes('job ') || name.includes(' job') || name === 'tenant') continue;
  test(`${name} of an empty installation`, async () => {
    mock().scene.data = 'empty';
    const { page, problems } = await visit(hash);
    await settled(page);
    assert.deepEqual(await accessibilityFaults(page), []);
    assert.deepEqual(problems, []);
  });
}

test('an empty installation names the next step', async () => {
  mock().scene.data = 'empty';
  const { page } = await visit('#/jobs');
  await page.getByText('cloakwork pbs').waitFor();
});
