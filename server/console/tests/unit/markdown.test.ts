import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import { parseInline, parseMarkdown, targetOf } from '../../src/figures/markdown.js';

test('blocks are told apart', () => {
  const source = '# T\n\ntwo\nlines\n\n- a\n  more\n- b\n\n1. x\n2. y\n\n```sh\n# no heading\n\n- no item\n```\nend';
  const text = (text: string) => [{ kind: 'text', text }];
  assert.deepEqual(parseMarkdown(source), [
    { kind: 'heading', level: 1, content: text('T') },
    { kind: 'paragraph', content: text('two lines') },
    { kind: 'list', isOrdered: false, items: [text('a more'), text('b')] },
    { kind: 'list', isOrdered: true, items: [text('x'), text('y')] },
    { kind: 'code', text: '# no heading\n\n- no item' },
    { kind: 'paragraph', content: text('end') },
  ]);
});

test('inlines are told apart', () => {
  assert.deepEqual(parseInline('a `b*c*` *d* **e** [f](g.md) [h'), [
    { kind: 'text', text: 'a ' },
    { kind: 'code', text: 'b*c*' },
    { kind: 'text', text: ' ' },
    { kind: 'emphasis', content: [{ kind: 'text', text: 'd' }] },
    { kind: 'text', text: ' ' },
    { kind: 'strong', content: [{ kind: 'text', text: 'e' }] },
    { kind: 'text', text: ' ' },
    { kind: 'link', target: 'g.md', content: [{ kind: 'text', text: 'f' }] },
    { kind: 'text', text: ' [h' },
  ]);
});

test('HTML stays text', () => {
  const source = '<img src=x onerror=alert(1)>';
  assert.deepEqual(parseMarkdown(source), [{ kind: 'paragraph', content: [{ kind: 'text', text: source }] }]);
});

test('every text ends, also one without an end of its marks', () => {
  for (const source of ['```', '```\nx', '`', '*', '[', '[a](', '- ', '#', '*'.repeat(5000), '['.repeat(5000)]) {
    assert.ok(Array.isArray(parseMarkdown(source)), source.slice(0, 9));
  }
});

test('links lead to reasons, to the web, or name a file, and nowhere else', () => {
  assert.deepEqual(targetOf('TOKEN_EXPIRED.md'), { kind: 'reason', reason: 'TOKEN_EXPIRED' });
  assert.deepEqual(targetOf('../operations.md#verification'), { kind: 'document', path: 'docs/operations.md' });
  assert.deepEqual(targetOf('https://example.org/a'), { kind: 'web', address: 'https://example.org/a' });
  for (const link of [
    'javascript:alert(1)',
    'data:text/html,x',
    '//example.org',
    'http://example.org',
    '/etc',
    'x y',
  ]) {
    assert.equal(targetOf(link), null, link);
  }
});

test('the pages of this clone have only blocks and links that the console shows', () => {
  const directory = new URL('../../../../../docs/errors/', import.meta.url);
  const names = readdirSync(directory).filter(name => name.endsWith('.md'));
  assert.ok(names.length > 50, `${names.length} pages`);
  for (const name of names) {
    const source = readFileSync(new URL(name, directory), 'utf8');
    assert.ok(!/^\s*(\||>|<[a-z]|!\[)/m.test(source), `${name} has a table, a quote, a picture or HTML`);
    const [first] = parseMarkdown(source);
    assert.equal(first?.kind, 'heading', name);
    for (const [, link] of source.matchAll(/\]\(([^)]*)\)/g)) assert.ok(targetOf(link ?? ''), `${name}: ${link}`);
  }
});
