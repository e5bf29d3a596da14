// Rules that the boards keep. Each function returns the places that break its rule.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { parse, substituted, variables } from './expression.js';
import { ALERTS, metricOf, SCRAPED, type Metric } from './metrics.js';
import { allExpressions, allPanels, DRAWN, queriesOf, type Dashboard } from './json.js';

/** All that the rules compare the boards with. */
export interface Reference {
  metrics: Map<string, Metric>;
  /** Directory of the documentation. */
  docs: string;
}

const PANELS_MAX = 26;
const COLUMNS = 24;
const WORDS_MAX = 35;
/** Variables that Grafana defines. */
const BUILT_IN = ['__interval', '__range', '__rate_interval'];

type Rule = (board: Dashboard, reference: Reference) => string[];

/** Every place of a board that breaks a rule. */
export function findings(board: Dashboard, reference: Reference): string[] {
  const rules: Rule[] = [facts, ids, places, expressions, legends, variablesDefined, links, sentences];
  return rules.flatMap(rule => rule(board, reference).map(finding => `${board.title}: ${finding}`));
}

/** A board has a title, an id and few panels. A panel has a title, a unit, a description and a link. */
function facts(board: Dashboard): string[] {
  const found: string[] = [];
  if (!board.uid || !board.description) found.push('no uid or description');
  const panels = allPanels(board).filter(panel => panel.type !== 'row');
  if (panels.length > PANELS_MAX) found.push(`${panels.length} panels, more than ${PANELS_MAX}`);
  for (const panel of panels) {
    const missing = (what: string) => found.push(`${panel.title || `panel ${panel.id}`}: no ${what}`);
    if (!panel.title) missing('title');
    if (!panel.fieldConfig?.defaults?.unit) missing('unit');
    if (!/ Bad: \S/.test(panel.description ?? '')) missing('description of a bad value');
    if (!panel.links?.length) missing('link');
    if (queriesOf(panel).length === 0) missing('query');
    if (!DRAWN.includes(panel.type)) found.push(`${panel.title}: the pictures cannot show the kind ${panel.type}`);
    if (panel.datasource?.uid !== '${datasource}') missing('data source by variable');
  }
  return found;
}

function ids(board: Dashboard): string[] {
  const twice = (what: string, values: unknown[]) =>
    values.filter((value, index) => values.indexOf(value) !== index).map(value => `${what} twice: ${value}`);
  const panels = allPanels(board);
  const letters = panels.flatMap(panel =>
    twice(
      `${panel.title}: query`,
      queriesOf(panel).map(query => query.refId),
    ),
  );
  return [
    ...twice(
      'id',
      panels.map(panel => panel.id),
    ),
    ...twice(
      'title',
      panels.map(panel => panel.title),
    ),
    ...letters,
  ];
}

/** Panels lie inside the grid and do not overlap. */
function places(board: Dashboard): string[] {
  const panels = allPanels(board);
  const found = panels
    .filter(({ gridPos: at }) => at.x < 0 || at.w < 1 || at.h < 1 || at.x + at.w > COLUMNS)
    .map(panel => `${panel.title}: outside of the grid`);
  for (const [index, one] of panels.entries()) {
    for (const other of panels.slice(index + 1)) {
      const [a, b] = [one.gridPos, other.gridPos];
      if (a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h)
        found.push(`${one.title} overlaps ${other.title}`);
    }
  }
  return found;
}

/** Expressions parse, and name metrics and labels that exist. */
function expressions(board: Dashboard, { metrics }: Reference): string[] {
  return allExpressions(board).flatMap(({ place, expr }) => faults(expr, metrics).map(fault => `${place}: ${fault}`));
}

function faults(expr: string, metrics: Map<string, Metric>): string[] {
  const { error, selectors, grouped } = parse(plain(expr));
  if (error !== undefined) return [`no PromQL near '${error}'`];
  if (selectors.length === 0) return ['no metric'];
  const found: string[] = [];
  const known = new Set(SCRAPED);
  for (const selector of selectors) {
    if (selector.metric === ALERTS.name) {
      found.push(
        ...selector.labels
          .filter(label => !ALERTS.labels.includes(label))
          .map(label => `alerts have no label ${label}`),
      );
      continue;
    }
    const metric = metricOf(selector.metric, metrics);
    if (!metric) {
      found.push(`the metric ${selector.metric} has no row in docs/`);
      continue;
    }
    const { kind, labels } = metrics.get(metric.name) as Metric;
    if (kind === 'histogram' ? metric.part === undefined : metric.part !== undefined) {
      found.push(`${selector.metric} is no series of a ${kind}`);
    }
    const own = new Set([...labels, ...SCRAPED, ...(metric.part === 'bucket' ? ['le'] : [])]);
    for (const label of own) known.add(label);
    for (const label of selector.labels) {
      if (!own.has(label)) found.push(`${selector.metric} has no label ${label}`);
    }
    for (const label of SCRAPED) {
      if (!selector.labels.includes(label)) found.push(`${selector.metric} ignores the variable ${label}`);
    }
  }
  return found.concat(
    grouped.filter(label => !known.has(label)).map(label => `no metric of the expression has the label ${label}`),
  );
}

/** Labels of a legend are labels of the answer. */
function legends(board: Dashboard): string[] {
  return allPanels(board).flatMap(panel =>
    queriesOf(panel).flatMap(({ expr, legendFormat = '' }) => {
      const { aggregates, grouped } = parse(plain(expr));
      const labels = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(match => match[1] ?? '');
      return labels
        .filter(label => aggregates && !grouped.includes(label))
        .map(label => `${panel.title}: the legend names ${label}, which the expression removes`);
    }),
  );
}

/** Variables in use are defined, and defined ones are in use. */
function variablesDefined(board: Dashboard): string[] {
  const defined = (board.templating?.list ?? []).map(variable => variable.name);
  const { templating, ...rest } = board;
  const asked = (templating?.list ?? []).map(variable => JSON.stringify([variable.query, variable.datasource]));
  const used = new Set(variables(JSON.stringify(rest) + asked.join()));
  const unknown = [...used].filter(name => !defined.includes(name) && !BUILT_IN.includes(name));
  const idle = defined.filter(name => !used.has(name));
  return [
    ...unknown.map(name => `the variable ${name} is not defined`),
    ...idle.map(name => `nothing uses the variable ${name}`),
  ];
}

/** Links of panels lead to pages, and to headings, that exist. */
function links(board: Dashboard, { docs }: Reference): string[] {
  return allPanels(board).flatMap(panel =>
    (panel.links ?? []).flatMap(({ url = '' }) => {
      const [, path = '', anchor] = /^\$\{docs\}\/([^#]+)(?:#(.+))?$/.exec(url) ?? [];
      const file = join(docs, path);
      if (!path || !existsSync(file)) return [`${panel.title}: no page ${url}`];
      if (anchor !== undefined && !anchors(readFileSync(file, 'utf8')).includes(anchor))
        return [`${panel.title}: no heading ${url}`];
      return [];
    }),
  );
}

/** Anchors of the headings of a page, as GitHub makes them. */
function anchors(text: string): string[] {
  const headings = text.split('\n').filter(line => /^#+ /.test(line));
  return headings.map(line =>
    line
      .replace(/^#+ /, '')
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

/** Descriptions have short sentences. */
function sentences(board: Dashboard): string[] {
  return allPanels(board).flatMap(panel => {
    const long = (panel.description ?? '')
      .split(/[.:;?!] /)
      .filter(sentence => sentence.split(/\s+/).length > WORDS_MAX);
    return long.map(sentence => `${panel.title}: a sentence of more than ${WORDS_MAX} words: ${sentence}`);
  });
}

/** The expression with fixed durations, which the parser needs. */
function plain(expr: string): string {
  return substituted(expr, { __range: '1h', __rate_interval: '1m', __interval: '15s' });
}
