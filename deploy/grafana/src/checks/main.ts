// Checks the boards without a server. Arguments: the directory of the committed JSON, the directory
// of the documentation, and a file to write for promtool.

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { BOARDS } from '../boards/index.js';
import { text } from '../text.js';
import type { Dashboard } from './json.js';
import { documented } from './metrics.js';
import { missed } from './planted.js';
import { findings } from './rules.js';
import { tests } from './synthetic.js';

const [directory, docs, promtool] = process.argv.slice(2);
if (directory === undefined || docs === undefined || promtool === undefined)
  throw new Error('usage: main JSON DOCS TESTS');

const reference = { docs, metrics: documented(docs) };
const found: string[] = [];
const rendered = new Map(BOARDS.map(board => [`${board.name}.json`, text(board)]));
for (const [name, board] of rendered) {
  const file = join(directory, name);
  if (!existsSync(file) || readFileSync(file, 'utf8') !== board)
    found.push(`${name} is not what the source renders: run 'make boards-render'`);
}
found.push(
  ...readdirSync(directory)
    .filter(name => !rendered.has(name))
    .map(name => `${name} has no source`),
);
const dashboards = [...rendered.values()].map(board => JSON.parse(board) as Dashboard);
found.push(...dashboards.flatMap(board => findings(board, reference)));
const uids = dashboards.map(board => board.uid);
found.push(...uids.filter((uid, index) => uids.indexOf(uid) !== index).map(uid => `two boards have the uid ${uid}`));
const [first] = dashboards;
if (first) found.push(...missed(first, reference));
writeFileSync(promtool, tests(dashboards, reference.metrics));

for (const finding of found) console.error(finding);
if (found.length > 0) {
  console.error(`${found.length} findings`);
  process.exit(1);
}
console.log(`${dashboards.length} boards, ${reference.metrics.size} documented metrics`);
