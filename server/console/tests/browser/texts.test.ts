// Texts that others choose stay texts, and do not break the page however long they are.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HOSTILE_TEXTS, LONG_TEXTS } from '../mock/texts.js';
import { accessibilityFaults, addresses, harness, overflowPx, settled, SIZES } from './harness.js';

const { mock, visit } = harness();

for (const [name, hash] of Object.entries(addresses(HOSTILE_TEXTS))) {
  test(`HTML in the texts of ${name} stays text`, async () => {
    mock().scene.data = 'hostile';
    const { page, problems } = await visit(hash);
    await settled(page);
    // A page that treats a text as HTML has an element of it, even where the policy stops its script.
    const foreign = await page.evaluate(
      () => document.querySelectorAll('#root :is(img, script, style, iframe, textarea)').length,
    );
    assert.equal(foreign, 0, 'elements that no page of the console has');
    assert.equal(await page.evaluate(() => 'cracked' in window), false);
    const links = await page.evaluate(() => [...document.links].map(link => link.protocol));
    assert.ok(
      links.every(protocol => ['http:', 'https:'].includes(protocol)),
      links.join(),
    );
    assert.deepEqual(problems, []);
  });
}

test('a hostile text is there as it was sent', async () => {
  mock().scene.data = 'hostile';
  const { page } = await visit('#/tenants');
  await page.getByRole('link', { name: '<img src=x onerror="window.cracked=1">0' }).first().waitFor();
});

for (const size of Object.keys(SIZES) as (keyof typeof SIZES)[]) {
  for (const [name, hash] of Object.entries(addresses(LONG_TEXTS))) {
    test(`names of 10,000 characters fit ${name}, ${size}`, async () => {
      mock().scene.data = 'long';
      const { page, problems } = await visit(hash, { size });
      await settled(page);
      assert.ok((await overflowPx(page)) <= 0, 'wider than the screen');
      const heightPx = await page.evaluate(() => document.documentElement.scrollHeight);
      assert.ok(heightPx < 30_000, `${heightPx} pixels high`);
      assert.deepEqual(problems, []);
    });
  }
}

test('long names break no rule of accessibility', async () => {
  mock().scene.data = 'long';
  const { page } = await visit('#/overview');
  await settled(page);
  assert.deepEqual(await accessibilityFaults(page), []);
});
