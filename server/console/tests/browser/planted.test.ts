// Faults that are planted into a page are found, so that the other tests can fail.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { accessibilityFaults, harness, overflowPx, settled, until } from './harness.js';

const { visit } = harness();

test('a violation of the policy is found', async () => {
  const { page, problems } = await visit('#/errors');
  await settled(page);
  await page.evaluate(() => {
    document.body.insertAdjacentHTML('beforeend', '<p style="color: red">planted</p>');
  });
  await until('the violation', () => problems.some(problem => problem.startsWith('policy: style-src')));
});

test('a text that becomes HTML is found', async () => {
  const { page, problems } = await visit('#/errors');
  await settled(page);
  await page.evaluate(() => {
    document.querySelector('#root')?.insertAdjacentHTML('beforeend', '<img src=x onerror="window.cracked=1">');
  });
  await until('the violation', () => problems.some(problem => problem.startsWith('policy: script-src')));
  assert.equal(await page.locator('#root img').count(), 1);
});

test('a call of another origin is found', async () => {
  const { page, problems } = await visit('#/errors');
  await settled(page);
  await page.evaluate(() => {
    fetch('http://127.0.0.2:9/').catch(() => {});
  });
  await until('the call', () => problems.some(problem => /^(another origin|policy: connect-src)/.test(problem)));
});

test('an error of a script is found', async () => {
  const { page, problems } = await visit('#/errors');
  await page.evaluate(() => {
    setTimeout(() => {
      throw new Error('planted');
    });
  });
  await until('the error', () => problems.includes('exception: planted'));
});

test('text that is hard to read, and a button without a name, are found', async () => {
  const { page } = await visit('#/errors');
  await settled(page);
  await page.evaluate(() => {
    const faint = document.createElement('p');
    faint.textContent = 'planted';
    faint.style.color = '#333b3f';
    document.querySelector('main .page')?.append(faint, document.createElement('button'));
  });
  const faults = (await accessibilityFaults(page)).map(fault => fault.split(':')[0]);
  assert.ok(faults.includes('color-contrast') && faults.includes('button-name'), faults.join());
});

test('a page that is wider than the screen is found', async () => {
  const { page } = await visit('#/errors', { size: 'phone' });
  await settled(page);
  await page.evaluate(() => {
    const wide = document.createElement('p');
    wide.style.width = '500px';
    wide.textContent = 'planted';
    document.body.append(wide);
  });
  assert.ok((await overflowPx(page)) > 0);
});
