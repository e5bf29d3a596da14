import assert from 'node:assert/strict';
import { test } from 'node:test';

import { nextDelayMs } from '../../src/api/backoff.js';
import type { DayUsage } from '../../src/api/contract.js';
import { KEPT_ENTRIES_MAX, withFirstPage, withNextPage, type Listing } from '../../src/figures/pages.js';
import { shortSet } from '../../src/figures/sets.js';
import { stacked } from '../../src/figures/stack.js';
import { dayStack, NO_USE, totalsByTenant } from '../../src/figures/usage.js';

const DAY_MICROS = 86_400e6;
const NOW_MICROS = Date.parse('2026-11-30T12:00:00Z') * 1000;

function use(tenant: string, day: string, bootstraps: number): DayUsage {
  return { ...NO_USE, tenant, day, bootstraps, jobs: 1 };
}

test('layers of a stack add up', () => {
  assert.deepEqual(
    stacked([
      [1, 2],
      [10, 20],
      [100, 200],
    ]),
    [
      [1, 2],
      [11, 22],
      [111, 222],
    ],
  );
  assert.deepEqual(stacked([]), []);
});

test('days without use have a place, and days outside have none', () => {
  const days = [
    use('a', '2026-11-28', 5),
    use('a', '2026-11-30', 7),
    use('b', '2026-11-30', 1),
    use('a', '2026-11-01', 99),
  ];
  const { micros, layers } = dayStack(days, NOW_MICROS, 3, 6);
  assert.deepEqual(
    micros.map(time => new Date(time / 1000).toISOString().slice(0, 10)),
    ['2026-11-28', '2026-11-29', '2026-11-30'],
  );
  assert.equal(micros[1]! - micros[0]!, DAY_MICROS);
  assert.deepEqual(layers, [
    { tenant: 'a', bootstraps: [5, 0, 7] },
    { tenant: 'b', bootstraps: [0, 0, 1] },
  ]);
});

test('small tenants share the last layer', () => {
  const days = ['a', 'b', 'c', 'd'].map((tenant, index) => use(tenant, '2026-11-30', 10 - index));
  const { layers } = dayStack(days, NOW_MICROS, 1, 3);
  assert.deepEqual(layers, [
    { tenant: 'a', bootstraps: [10] },
    { tenant: 'b', bootstraps: [9] },
    { tenant: null, bootstraps: [15] },
  ]);
});

test('a wild day does not break the stack', () => {
  assert.deepEqual(dayStack([use('a', 'soon', 1)], NOW_MICROS, 1, 3).layers, [{ tenant: 'a', bootstraps: [0] }]);
});

test('totals sum each tenant by itself', () => {
  const totals = totalsByTenant([
    use('a', '2026-11-29', 5),
    use('a', '2026-11-30', 7),
    use('__proto__', '2026-11-30', 1),
  ]);
  assert.equal(totals.get('a')?.bootstraps, 12);
  assert.equal(totals.get('a')?.jobs, 2);
  assert.equal(totals.get('__proto__')?.bootstraps, 1);
});

const id = (item: string) => item;
const listing = (items: string, next: string | null = null): Listing<string> => ({ items: items.split(''), next });

test('a new first page goes before the entries that are known', () => {
  assert.deepEqual(withFirstPage(listing('cdefgh', 'p'), listing('bcd', 'q'), id), listing('bcdefgh', 'p'));
});

test('a first page without a known entry begins the list again', () => {
  assert.deepEqual(withFirstPage(listing('cdefgh', 'p'), listing('xyz', 'q'), id), listing('xyz', 'q'));
});

test('a list of one page stays a list of one page', () => {
  assert.deepEqual(withFirstPage(listing('cde', 'p'), listing('bcd', 'q'), id), listing('bcd', 'q'));
});

test('a further page brings no entry twice, and the list has an end', () => {
  assert.deepEqual(withNextPage(listing('abc', 'p'), listing('cde', 'q'), id), listing('abcde', 'q'));
  const many = { items: Array.from({ length: KEPT_ENTRIES_MAX + 5 }, (_, index) => `${index}`), next: 'q' };
  const kept = withNextPage(listing('abc'), many, id);
  assert.equal(kept.items.length, KEPT_ENTRIES_MAX);
  assert.equal(kept.next, null);
});

test('pauses grow with failures, up to half a minute', () => {
  assert.equal(nextDelayMs(2000, 0), 2000);
  assert.deepEqual(
    [1, 2, 3, 4, 5, 50].map(failures => nextDelayMs(2000, failures)),
    [2000, 4000, 8000, 16_000, 30_000, 30_000],
  );
  assert.equal(nextDelayMs(60_000, 3), 60_000);
});

test('names of sets keep what tells them apart', () => {
  assert.equal(shortSet('V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128'), '2_2 KS_PBS');
  assert.equal(shortSet('V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128'), '2_2 KS32_PBS');
  assert.equal(shortSet('PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS'), 'boolean 2^-165 KS_PBS');
  assert.equal(shortSet('CKKS_45_60_50_H4096'), 'CKKS_45_60_50_H4096');
});
