import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bars, ticks } from '../../src/figures/waterfall.js';

const STAGES = [
  { name: 'validate', nanos: 10 },
  { name: 'queue', nanos: 0 },
  { name: 'dispatch', nanos: 30 },
  { name: 'store', nanos: 60 },
];

test('each bar begins where the one before ended, and the last ends at the whole', () => {
  const shown = bars(STAGES, 100);
  assert.deepEqual(
    shown.map(({ start, share }) => [start, share]),
    [
      [0, 0.1],
      [0.1, 0],
      [0.1, 0.3],
      [0.4, 0.6],
    ],
  );
});

test('bars stay inside if the stages exceed the wall time, and leave a rest if they do not reach it', () => {
  const over = bars(STAGES, 50);
  assert.equal(over.at(-1)!.start + over.at(-1)!.share, 1);
  const under = bars(STAGES, 200);
  assert.equal(under.at(-1)!.start + under.at(-1)!.share, 0.5);
});

test('a record without time, or with wild numbers, has bars of no length', () => {
  for (const wild of [0, NaN, -5, Infinity]) {
    const [bar] = bars([{ name: 'queue', nanos: wild }], wild);
    assert.deepEqual([bar?.nanos, bar?.start, bar?.share], [0, 0, 0], `${wild}`);
  }
});

test('ticks are round, begin at zero, and do not exceed the wall time', () => {
  assert.deepEqual(ticks(100, 5), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(ticks(117e6, 6), [0, 20e6, 40e6, 60e6, 80e6, 100e6]);
  for (const wall of [1, 7, 99, 12_345, 9.9e12]) {
    const marks = ticks(wall, 6);
    assert.ok(marks.length <= 7 && marks.at(-1)! <= wall, `${wall}: ${marks}`);
  }
  assert.deepEqual(ticks(0, 6), [0]);
  assert.deepEqual(ticks(NaN, 6), [0]);
});
