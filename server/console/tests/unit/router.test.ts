import assert from 'node:assert/strict';
import { test } from 'node:test';

import { addressOf, PAGES, parseRoute } from '../../src/state/router.js';

test('each page is found at its address, with its parameters', () => {
  for (const page of PAGES) {
    const name = 'tenants/ä?&=#/<b>/jobs/1 %';
    const route = parseRoute(addressOf(page, { name }));
    assert.equal(route.page, page);
    assert.equal(route.parameters.get('name'), name);
  }
});

test('an empty address is the overview', () => {
  for (const hash of ['', '#', '#/']) assert.equal(parseRoute(hash).page, 'overview');
});

test('an unknown address has no page', () => {
  for (const hash of ['#/nothing', '#/jobs/1', '#/__proto__', '#/constructor', '#main']) {
    assert.equal(parseRoute(hash).page, null, hash);
  }
});

test('a sign-in link keeps its code', () => {
  assert.equal(parseRoute('#/login?link=a-b_c').parameters.get('link'), 'a-b_c');
});
