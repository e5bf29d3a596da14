// Asks a Prometheus every query of every panel, over the time of a load. Each query must have an
// answer, and one with values unless src/queries/empty.ts says why not. Arguments: the address of
// Prometheus, the first and the last time in seconds, the distance of scrapes in seconds, and the
// directory of the JSON.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { allPanels, queriesOf, type Dashboard } from '../checks/json.js';
import { range, type Times } from '../prometheus.js';
import { mayBeEmpty } from './empty.js';

const [prometheus, from, to, scrape, json] = process.argv.slice(2);
if (prometheus === undefined || json === undefined) throw new Error('usage: main PROMETHEUS FROM TO SCRAPE JSON');
const seconds = Number(scrape);
const times: Times = {
  from: Number(from),
  to: Number(to),
  step: Math.max(seconds, Math.ceil((Number(to) - Number(from)) / 120)),
  scrape: seconds,
};

let [answered, failed] = [0, 0];
const empty = new Map<string, string[]>();
const boards = readdirSync(json).filter(name => name.endsWith('.json'));
for (const name of boards) {
  const board = JSON.parse(readFileSync(join(json, name), 'utf8')) as Dashboard;
  for (const panel of allPanels(board)) {
    for (const query of queriesOf(panel)) {
      const place = `${board.title}, ${panel.title}, ${query.refId}`;
      try {
        const { series } = await range(prometheus, query, times);
        const full = series.some(one => one.values.some(value => value !== null));
        const reason = mayBeEmpty(query.expr);
        if (full) {
          answered += 1;
        } else if (reason !== undefined) {
          empty.set(reason, [...(empty.get(reason) ?? []), place]);
        } else {
          failed += 1;
          console.error(`${place}: no values: ${query.expr}`);
        }
      } catch (error) {
        failed += 1;
        console.error(`${place}: ${error instanceof Error ? error.message : error}`);
      }
    }
  }
}
const excused = [...empty.values()].flat().length;
for (const [reason, places] of empty)
  console.log(`${places.length} queries without values: ${reason}\n  ${places.join('\n  ')}`);
console.log(
  `${boards.length} boards: ${answered} queries have values, ${excused} have none for a stated reason, ${failed} fail`,
);
process.exitCode = failed > 0 ? 1 : 0;
