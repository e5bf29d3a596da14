// Draws each board from the answers of Prometheus, as one picture. Arguments: the address of
// Prometheus, the first and the last time in seconds, the distance of scrapes in seconds, the
// directory of the JSON, the directory for the pictures, and the program of Chromium.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

import { allPanels, queriesOf, type Dashboard, type Query } from '../checks/json.js';
import { type Answer, exemplars, newest, range, type Times } from '../prometheus.js';
import type { Event } from './draw.js';
import { sheet } from './sheet.js';
import { WIDTH } from './style.js';

/** Pictures above this size are too large for the repository. */
const BYTES_MAX = 400_000;
/** Pixels of a picture for each pixel of the page, so that text stays sharp. */
const SCALE = 1.5;
/** Qualities of the compression, the best first. */
const QUALITIES = [90, 82, 74, 66];
/** Values of a series in a picture. */
const POINTS = 180;

/** The picture in the best quality that is small enough. */
async function small(capture: (quality: number) => Promise<{ data: string }>): Promise<Buffer> {
  for (const quality of QUALITIES) {
    const picture = Buffer.from((await capture(quality)).data, 'base64');
    if (picture.length <= BYTES_MAX) return picture;
  }
  throw new Error(`a picture has more than ${BYTES_MAX} bytes`);
}

const [prometheus, from, to, scrape, json, out, program] = process.argv.slice(2);
if (prometheus === undefined || json === undefined || out === undefined || program === undefined) {
  throw new Error('usage: main PROMETHEUS FROM TO SCRAPE JSON OUT CHROMIUM');
}
const server = prometheus;
const seconds = Number(scrape);
const step = Math.max(seconds, Math.ceil((Number(to) - Number(from)) / POINTS));
const times: Times = { from: Number(from), to: Number(to), step, scrape: seconds };

async function answer(query: Query): Promise<Answer> {
  if (query.instant) return newest(server, query, times);
  const found = await range(server, query, times);
  return query.exemplar ? { ...found, exemplars: await exemplars(server, query, times) } : found;
}

/** The times at which each annotation of a board begins to have a value. */
async function eventsOf(board: Dashboard): Promise<Event[]> {
  const marks = board.annotations?.list ?? [];
  return Promise.all(
    marks.map(async ({ name, iconColor, expr = '' }) => {
      const answer = await range(server, { refId: name, expr }, times);
      const begins = answer.series.flatMap(({ values }) =>
        answer.times.filter((_, index) => index > 0 && values[index] !== null && values[index - 1] === null),
      );
      return { name, colour: iconColor, times: begins };
    }),
  );
}

const font = readFileSync(
  createRequire(import.meta.url).resolve('@fontsource-variable/inter/files/inter-latin-wght-normal.woff2'),
).toString('base64');
mkdirSync(out, { recursive: true });
const browser = await chromium.launch({
  executablePath: program,
  args: ['--no-sandbox', '--font-render-hinting=none', '--force-color-profile=srgb'],
});
try {
  for (const name of readdirSync(json).filter(name => name.endsWith('.json'))) {
    const board = JSON.parse(readFileSync(join(json, name), 'utf8')) as Dashboard;
    const answers = new Map<number, Answer[]>();
    for (const panel of allPanels(board)) {
      answers.set(panel.id, await Promise.all(queriesOf(panel).map(answer)));
    }
    const { html, height } = sheet({ board, answers, events: await eventsOf(board), times }, font);
    const page = await browser.newPage({ viewport: { width: WIDTH, height }, deviceScaleFactor: 1 });
    await page.setContent(html);
    await page.evaluate('document.fonts.ready');
    const session = await page.context().newCDPSession(page);
    const picture = await small(quality =>
      session.send('Page.captureScreenshot', {
        format: 'webp',
        quality,
        clip: { x: 0, y: 0, width: WIDTH, height, scale: SCALE },
      }),
    );
    await page.close();
    const file = join(out, name.replace('.json', '.webp'));
    writeFileSync(file, picture);
    console.log(`${file}: ${Math.ceil(picture.length / 1000)} kB`);
  }
} finally {
  await browser.close();
}
