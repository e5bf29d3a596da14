// The built files: what the server may expect of them, and their size.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { DIST } from './harness.js';

/** Of all scripts and styles together, not compressed. */
const BYTES_MAX = 250_000;
/** Of those that every visit reads. */
const FIRST_BYTES_MAX = 170_000;

const assets = readdirSync(join(DIST, 'assets'));
const index = readFileSync(join(DIST, 'index.html'), 'utf8');

function bytesOf(names: string[]): number {
  return names.reduce((sum, name) => sum + statSync(join(DIST, 'assets', name)).size, 0);
}

test('there are only files that the server knows', () => {
  assert.deepEqual(readdirSync(DIST).sort(), ['assets', 'index.html']);
  for (const name of assets) assert.match(name, /^[\w.-]+-[\w-]{8}\.(js|css|svg)$/);
});

test('scripts and styles are small', () => {
  const code = assets.filter(name => /\.(js|css)$/.test(name));
  assert.ok(bytesOf(code) < BYTES_MAX, `${bytesOf(code)} bytes`);
  const first = code.filter(name => index.includes(name));
  assert.ok(first.length >= 2 && bytesOf(first) < FIRST_BYTES_MAX, `${bytesOf(first)} bytes in ${first.length} files`);
});

test('the page has no inline script and no inline style', () => {
  assert.doesNotMatch(index, /<script(?![^>]*\ssrc=)/);
  assert.doesNotMatch(index, /<style|\sstyle=|\son\w+=/);
});

test('no file names another host, apart from names that are no addresses', () => {
  for (const name of assets) {
    const text = readFileSync(join(DIST, 'assets', name), 'utf8');
    const hosts = [...text.matchAll(/https?:\/\/([\w.-]+)/g)].map(([, host]) => host);
    // Namespaces of SVG and MathML.
    assert.deepEqual(
      hosts.filter(host => host !== 'www.w3.org'),
      [],
      name,
    );
  }
});

test('the licences of packages are in the script that has their code', () => {
  const entry = assets.find(name => name.endsWith('.js') && index.includes(name)) ?? '';
  const text = readFileSync(join(DIST, 'assets', entry), 'utf8');
  for (const holder of ['Jason Miller', 'Leon Sorokin', 'Preact Team']) assert.ok(text.includes(holder), holder);
});
