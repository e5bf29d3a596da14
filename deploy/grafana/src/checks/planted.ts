// Faults that are planted into a board, one at a time. Each must be found. Otherwise a rule that
// finds nothing would pass for a board without faults.

import { findings, type Reference } from './rules.js';
import { allPanels, type Dashboard, type Panel } from './json.js';

interface Fault {
  what: string;
  /** A part of the finding that the fault must cause. */
  finding: string;
  plant(panel: Panel, board: Dashboard): void;
}

const query = (panel: Panel) => {
  const first = panel.targets?.[0];
  if (!first) throw new Error(`${panel.title} has no query`);
  return first;
};

const FAULTS: Fault[] = [
  { what: 'no unit', finding: 'no unit', plant: panel => void delete panel.fieldConfig?.defaults?.unit },
  { what: 'no title', finding: 'no title', plant: panel => void (panel.title = '') },
  {
    what: 'no bad value',
    finding: 'description of a bad value',
    plant: panel => void (panel.description = 'A number.'),
  },
  { what: 'no link', finding: 'no link', plant: panel => void (panel.links = []) },
  { what: 'no query', finding: 'no query', plant: panel => void (panel.targets = []) },
  {
    what: 'a fixed data source',
    finding: 'data source by variable',
    plant: panel => void (panel.datasource = { uid: 'prometheus' }),
  },
  { what: 'a kind that is not drawn', finding: 'cannot show', plant: panel => void (panel.type = 'geomap') },
  { what: 'an id twice', finding: 'id twice', plant: (panel, board) => void (panel.id = board.panels?.[0]?.id ?? 0) },
  { what: 'panels over each other', finding: 'overlaps', plant: panel => void (panel.gridPos.h += 1000) },
  { what: 'a panel outside of the grid', finding: 'outside of the grid', plant: panel => void (panel.gridPos.x = 23) },
  { what: 'a broken expression', finding: 'no PromQL', plant: panel => void (query(panel).expr += ' )') },
  {
    what: 'an unknown metric',
    finding: 'has no row',
    plant: panel => void (query(panel).expr = 'cloakwork_bootstrap_total{job=~"$job",instance=~"$instance"}'),
  },
  {
    what: 'an unknown label',
    finding: 'has no label tenant',
    plant: panel => void (query(panel).expr = 'cloakwork_jobs_queued{job=~"$job",instance=~"$instance",tenant="a"}'),
  },
  {
    what: 'an unknown label of a list',
    finding: 'has the label tenant',
    plant: panel =>
      void (query(panel).expr = 'sum by (tenant) (cloakwork_jobs_queued{job=~"$job",instance=~"$instance"})'),
  },
  {
    what: 'a bucket of a gauge',
    finding: 'has no row',
    plant: panel => void (query(panel).expr = 'cloakwork_jobs_queued_buckets{job=~"$job",instance=~"$instance"}'),
  },
  {
    what: 'a histogram as a gauge',
    finding: 'no series of a histogram',
    plant: panel => void (query(panel).expr = 'cloakwork_db_seconds{job=~"$job",instance=~"$instance"}'),
  },
  {
    what: 'an ignored variable',
    finding: 'ignores the variable',
    plant: panel => void (query(panel).expr = 'cloakwork_jobs_queued{job=~"$job"}'),
  },
  {
    what: 'a legend of a removed label',
    finding: 'the expression removes',
    plant: panel =>
      void ([query(panel).expr, query(panel).legendFormat] = [
        'sum(cloakwork_jobs_queued{job=~"$job",instance=~"$instance"})',
        '{{instance}}',
      ]),
  },
  {
    what: 'an undefined variable',
    finding: 'is not defined',
    plant: panel => void (query(panel).expr = 'cloakwork_jobs_queued{job=~"$jobs",instance=~"$instance"}'),
  },
  {
    what: 'an idle variable',
    finding: 'nothing uses',
    plant: (_, board) => void board.templating?.list?.push({ name: 'idle', type: 'textbox' }),
  },
  {
    what: 'a link without a page',
    finding: 'no page',
    plant: panel => void (panel.links = [{ url: '${docs}/nowhere.md' }]),
  },
  {
    what: 'a link without a heading',
    finding: 'no heading',
    plant: panel => void (panel.links = [{ url: '${docs}/metrics.md#nowhere' }]),
  },
  {
    what: 'a long sentence',
    finding: 'a sentence of more',
    plant: panel => void (panel.description = `Bad: ${'very '.repeat(40)}long.`),
  },
  {
    what: 'too many panels',
    finding: 'panels, more than',
    plant: (panel, board) => void board.panels?.push(...Array.from({ length: 30 }, () => panel)),
  },
];

/** Planted faults that no rule found. */
export function missed(board: Dashboard, reference: Reference): string[] {
  const before = new Set(findings(board, reference));
  return FAULTS.filter(fault => {
    const copy = structuredClone(board);
    const panel = allPanels(copy).find(candidate => candidate.type === 'timeseries');
    if (!panel) throw new Error(`${board.title} has no panel for planted faults`);
    fault.plant(panel, copy);
    return !findings(copy, reference).some(finding => !before.has(finding) && finding.includes(fault.finding));
  }).map(fault => `a planted fault was not found: ${fault.what}`);
}
