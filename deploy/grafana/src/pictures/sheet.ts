// A board as one page of HTML: a heading, and each panel at its place of the grid.

import { allPanels, type Dashboard, type Panel } from '../checks/json.js';
import type { Answer, Times } from '../prometheus.js';
import { Colours } from './colour.js';
import { draw, type Event } from './draw.js';
import { clock } from './format.js';
import { escaped, path, style, svg, tag } from './markup.js';
import { css, FOOT, HEADING, MARGIN, PADDING, TITLE, WIDTH } from './style.js';

const GAP = 10;
/** Height of a line of the grid, as in Grafana. */
const LINE = 38;

export interface Sheet {
  html: string;
  height: number;
}

/** All that a page shows of a board. */
export interface Content {
  board: Dashboard;
  /** Answers to the queries of each panel, by its id. */
  answers: Map<number, Answer[]>;
  events: Event[];
  times: Times;
}

export function sheet(content: Content, font: string): Sheet {
  const { board, answers, events } = content;
  const panels = allPanels(board);
  const height = HEADING + Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * LINE + FOOT;
  const colours = new Colours();
  const closed = (board.panels ?? []).filter(panel => panel.collapsed).map(panel => panel.id);
  const parts = panels.map(panel =>
    panel.type === 'row'
      ? heading(panel, closed.includes(panel.id))
      : framed(panel, answers.get(panel.id) ?? [], colours, events),
  );
  const note = 'Drawn by deploy/grafana from the answers of Prometheus. No screenshot of Grafana.';
  const foot = tag('footer', { style: style({ top: `${height - FOOT}px` }) }, note);
  const size = style({ width: `${WIDTH}px`, height: `${height}px` });
  const head = tag('head', {}, '<meta charset="utf-8">', tag('style', {}, css(font)));
  const html = tag('html', { lang: 'en' }, head, tag('body', { style: size }, banner(content), ...parts, foot));
  return { html: `<!doctype html>${html}`, height };
}

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

function place({ gridPos: { x, y, w, h } }: Panel): Box {
  const column = (WIDTH - 2 * MARGIN + GAP) / 24;
  return { left: MARGIN + x * column, top: HEADING + y * LINE, width: w * column - GAP, height: h * LINE - GAP };
}

function pixels(box: Partial<Box>): string {
  return style(Object.fromEntries(Object.entries(box).map(([name, value]) => [name, `${value.toFixed(1)}px`])));
}

/** The heading of a row. */
function heading(panel: Panel, closed: boolean): string {
  const { left, top, width } = place(panel);
  const note = closed ? tag('em', {}, 'closed at first') : '';
  return tag('h2', { style: pixels({ left, top, width }) }, escaped(panel.title), note, tag('span'));
}

function framed(panel: Panel, answers: Answer[], colours: Colours, events: Event[]): string {
  const box = place(panel);
  const width = Math.floor(box.width - 2 * PADDING - 2);
  const height = Math.floor(box.height - TITLE - PADDING);
  const content = draw({ panel, answers, width, height, colours, events });
  const inside = tag('div', { class: 'content', style: pixels({ width, height }) }, content);
  return tag('section', { style: pixels(box) }, tag('h3', {}, escaped(panel.title)), inside);
}

/** The top of the page: the name of the board, the events, the filters and the time. */
function banner({ board, events, times }: Content): string {
  const [group = '', name = board.title] = board.title.split(' / ');
  const title = tag('div', {}, tag('small', {}, escaped(group)), tag('h1', {}, escaped(name)));
  const shown = (board.templating?.list ?? []).filter(variable => variable.hide !== 2);
  const chips = shown.map(({ label, name, type }) => chip(label ?? name, type === 'datasource' ? 'Prometheus' : 'All'));
  const happened = events
    .filter(event => event.times.length > 0)
    .map(({ name, colour }) => {
      const mark = tag('i', { style: style({ 'border-bottom-color': colour }) });
      return tag('span', { class: 'event' }, mark, escaped(name));
    });
  const day = new Date(times.to * 1000).toISOString().slice(0, 10);
  const time = chip(day, `${clock(times.from)} – ${clock(times.to)} UTC`);
  const side = tag('div', { class: 'chips' }, ...happened, ...chips, time);
  return tag('header', {}, tag('div', { class: 'name' }, logo(), title), side);
}

function chip(name: string, value: string): string {
  return tag('span', { class: 'chip' }, escaped(name), tag('b', {}, escaped(value)));
}

/** A wave on a coloured square. */
function logo(): string {
  const points = Array.from({ length: 33 }, (_, index): [number, number] => {
    const share = index / 32;
    return [8 + share * 18, 17 - 4.5 * Math.sin(share * 3 * Math.PI) * (0.55 + 0.45 * share)];
  });
  const stop = (offset: number, colour: string) => tag('stop', { offset, 'stop-color': colour });
  const shade = tag(
    'linearGradient',
    { id: 'logo', x1: 0, y1: 0, x2: 1, y2: 1 },
    stop(0, '#5aa9ff'),
    stop(1, '#8f6be6'),
  );
  const look = {
    fill: 'none',
    stroke: '#fff',
    'stroke-width': 2.6,
    'stroke-linecap': 'round',
    'stroke-linejoin': 'round',
  };
  return svg(
    34,
    34,
    tag('defs', {}, shade),
    tag('rect', { width: 34, height: 34, rx: 9, fill: 'url(#logo)' }),
    tag('path', { d: path(points), ...look }),
  );
}
