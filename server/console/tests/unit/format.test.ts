import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as format from '../../src/format.js';

/** Texts with plain blanks, which are easier to write. */
function plainly(text: string): string {
  return text.replaceAll('\u00a0', ' ');
}

test('spans have three digits, and two units above a minute', () => {
  const cases: [number, string][] = [
    [0, '0 s'],
    [1, '1 ns'],
    [812, '812 ns'],
    [999.4, '999 ns'],
    [999.6, '1.00 µs'],
    [1234, '1.23 µs'],
    [999_499, '999 µs'],
    [999_500, '1.00 ms'],
    [45_600_000, '45.6 ms'],
    [999_600_000, '1.00 s'],
    [7_890_000_000, '7.89 s'],
    [59_940_000_000, '59.9 s'],
    [59_960_000_000, '1 m 00 s'],
    [125_000_000_000, '2 m 05 s'],
    [12_000_000_000_000, '3 h 20 m'],
    [187_200_000_000_000, '2 d 4 h'],
    [-1500, '-1.50 µs'],
    [NaN, '–'],
    [Infinity, '–'],
  ];
  for (const [nanos, text] of cases) assert.equal(plainly(format.nanos(nanos)), text, `${nanos} ns`);
});

test('counts have groups, and prefixes from ten thousand on', () => {
  assert.equal(format.count(1_234_567), '1,234,567');
  assert.equal(format.count(-1234), '-1,234');
  assert.equal(format.count(999), '999');
  assert.equal(plainly(format.shortCount(9999)), '9,999');
  assert.equal(plainly(format.shortCount(12_345)), '12.3 k');
  assert.equal(plainly(format.shortCount(999_600)), '1.00 M');
  assert.equal(plainly(format.shortCount(9.2e8)), '920 M');
  assert.equal(plainly(format.shortCount(1e30)), '1000000000000 E');
});

test('rates show small values', () => {
  assert.equal(format.rate(0), '0');
  assert.equal(format.rate(0.004), '<0.01');
  assert.equal(format.rate(0.25), '0.25');
  assert.equal(plainly(format.rate(18_432)), '18.4 k');
});

test('sizes have decimal units', () => {
  assert.equal(plainly(format.bytes(0)), '0 B');
  assert.equal(plainly(format.bytes(999)), '999 B');
  assert.equal(plainly(format.bytes(1000)), '1.00 kB');
  assert.equal(plainly(format.bytes(30_100_000)), '30.1 MB');
  assert.equal(plainly(format.bytes(999_999_999)), '1.00 GB');
});

test('shares never look like none or all when they are not', () => {
  assert.equal(plainly(format.share(0)), '0.0 %');
  assert.equal(plainly(format.share(0.0002)), '<0.1 %');
  assert.equal(plainly(format.share(0.553)), '55.3 %');
  assert.equal(plainly(format.share(1)), '100 %');
});

test('ages are whole, and times of the future say so', () => {
  assert.equal(format.age(0, 400_000), 'now');
  assert.equal(plainly(format.age(0, 12_900_000)), '12 s ago');
  assert.equal(plainly(format.age(0, 125_000_000)), '2 m 05 s ago');
  assert.equal(plainly(format.age(20_000_000, 0)), 'in 20 s');
  assert.equal(format.age(NaN, 0), '–');
});

test('marks of axes have no idle zeros', () => {
  assert.equal(plainly(format.plain('20.0\u00a0ms')), '20 ms');
  assert.equal(plainly(format.plain('1.50\u00a0s')), '1.5 s');
  assert.equal(plainly(format.plain('100\u00a0ms')), '100 ms');
  assert.equal(format.plain('1,000'), '1,000');
  assert.equal(format.plain('0'), '0');
});

test('names are shortened to the part that tells them apart', () => {
  assert.equal(format.lastPart('tenants/a/jobs/01a1ff37-229b'), '01a1ff37-229b');
  assert.equal(format.shortId('tenants/a/jobs/01a1ff37-229b-7577-a9a8-6e9676829ce8'), '01a1ff37');
  assert.equal(format.shortId('demo'), 'demo');
});

test('limits have the unit of their names', () => {
  assert.equal(plainly(format.limit('tenant_bytes', 68_719_476_736)), '68.7 GB');
  assert.equal(plainly(format.limit('upload_expiry_seconds', 86_400)), '1 d 0 h');
  assert.equal(plainly(format.limit('lease_ms', 10_000)), '10.0 s');
  assert.equal(format.limit('tenant_queued_jobs', 10_000), '10,000');
});

test('wild times are no times', () => {
  assert.equal(format.dateTime(1e30), '–');
  assert.equal(format.isoTime(NaN), '–');
  assert.equal(format.isoTime(1_000_000), '1970-01-01T00:00:01.000Z');
});

test('labels of times differ, however short the step', () => {
  const micros = new Date(2026, 10, 30, 9, 5, 7).getTime() * 1000;
  assert.equal(format.clockLabel(micros, 60), '09:05');
  assert.equal(format.clockLabel(micros, 15), '09:05:07');
});
