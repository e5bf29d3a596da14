// Writes the boards as JSON for Grafana: one file for each board. Arguments: the directory, and
// optionally the address of the documentation.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { BOARDS } from './boards/index.js';
import { text } from './text.js';

const [directory, docs] = process.argv.slice(2);
if (directory === undefined) throw new Error('usage: render DIRECTORY [ADDRESS OF THE DOCUMENTATION]');
for (const board of BOARDS) {
  writeFileSync(join(directory, `${board.name}.json`), text(board, docs));
}
