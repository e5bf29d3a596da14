// The parts of a board's JSON that checks and pictures read.

export interface Query {
  refId: string;
  expr: string;
  legendFormat?: string;
  format?: string;
  instant?: boolean;
  exemplar?: boolean;
}

export interface Place {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Override {
  matcher: { id: string; options?: unknown };
  properties: { id: string; value?: unknown }[];
}

export interface Step {
  value: number | null;
  color: string;
}

export interface Mapping {
  type: string;
  options: Record<string, { text?: string; color?: string }>;
}

export interface Defaults {
  unit?: string;
  decimals?: number;
  min?: number;
  max?: number;
  noValue?: string;
  color?: { mode: string; fixedColor?: string };
  thresholds?: { mode: string; steps: Step[] };
  mappings?: Mapping[];
  custom?: Record<string, unknown>;
}

export interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  collapsed?: boolean;
  gridPos: Place;
  datasource?: { uid?: string };
  links?: { title?: string; url?: string }[];
  targets?: Query[];
  panels?: Panel[];
  fieldConfig?: { defaults?: Defaults; overrides?: Override[] };
  options?: Record<string, unknown>;
  transformations?: { id: string; options?: unknown }[];
}

export interface Variable {
  name: string;
  label?: string;
  type: string;
  query?: unknown;
  datasource?: unknown;
  hide?: number;
}

export interface Dashboard {
  uid: string;
  title: string;
  description?: string;
  panels?: Panel[];
  templating?: { list?: Variable[] };
  annotations?: { list?: Annotation[] };
}

export interface Annotation {
  name: string;
  expr?: string;
  iconColor: string;
  datasource?: { uid?: string };
}

/** Kinds of panels that the pictures can show. */
export const DRAWN = ['bargauge', 'heatmap', 'piechart', 'stat', 'state-timeline', 'table', 'timeseries'];

/** The panels of a board, with those of closed rows. */
export function allPanels(board: Dashboard): Panel[] {
  return (board.panels ?? []).flatMap(panel => [panel, ...(panel.panels ?? [])]);
}

export function queriesOf(panel: Panel): Query[] {
  return panel.targets ?? [];
}

/** Every expression of a board, with the place where it is. */
export function allExpressions(board: Dashboard): { place: string; expr: string }[] {
  const panels = allPanels(board).flatMap(panel =>
    queriesOf(panel).map(({ expr, refId }) => ({ place: `${panel.title}, ${refId}`, expr })),
  );
  return panels.concat(
    (board.annotations?.list ?? []).map(({ name, expr = '' }) => ({ place: `annotation ${name}`, expr })),
  );
}
