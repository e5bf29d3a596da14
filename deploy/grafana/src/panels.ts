// Panels of all boards: one function for each kind. A panel cannot be made without a title, a unit,
// a description and a page of documentation.

import type { Builder, Dataquery } from '@grafana/grafana-foundation-sdk/cog';
import * as bargauge from '@grafana/grafana-foundation-sdk/bargauge';
import * as common from '@grafana/grafana-foundation-sdk/common';
import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';
import * as heatmap from '@grafana/grafana-foundation-sdk/heatmap';
import * as piechart from '@grafana/grafana-foundation-sdk/piechart';
import * as prometheus from '@grafana/grafana-foundation-sdk/prometheus';
import * as stat from '@grafana/grafana-foundation-sdk/stat';
import * as statetimeline from '@grafana/grafana-foundation-sdk/statetimeline';
import * as table from '@grafana/grafana-foundation-sdk/table';
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries';

import { FAILED, HEALTHY, NEUTRAL, WARNING, type Palette } from './colours.js';

/** The data source of all queries: the variable `datasource`. */
export const SOURCE: common.DataSourceRef = { type: 'prometheus', uid: '${datasource}' };

/** Units, under the names that Grafana gives them. `count:` scales to thousands and millions. */
export const UNIT = {
  bootstraps: 'count:PBS',
  bootstrapsPerSecond: 'count:PBS/s',
  bytes: 'bytes',
  bytesPerSecond: 'binBps',
  callsPerSecond: 'count:calls/s',
  celsius: 'celsius',
  count: 'short',
  hertz: 'hertz',
  joules: 'joule',
  jobsPerSecond: 'count:jobs/s',
  perSecond: 'count:/s',
  ratio: 'percentunit',
  seconds: 's',
  times: 'suffix:×',
  wavesPerSecond: 'count:waves/s',
  watts: 'watt',
  workerSeconds: 'count:worker s',
  yes: 'bool_yes_no',
} as const;

export type Unit = (typeof UNIT)[keyof typeof UNIT];

/** A page below docs/, with or without an anchor, and the title of its link. */
export interface Page {
  title: string;
  path: string;
}

export const METRICS: Page = { title: 'Metrics', path: 'metrics.md' };

/** The runbook of an alert. */
export function runbook(alert: string): Page {
  return { title: `Runbook ${alert}`, path: `runbooks/${alert}.md` };
}

/** A row of the reference of metrics, or another page. */
export function page(title: string, path: string): Page {
  return { title, path };
}

export interface Query {
  expr: string;
  /** Name of each series, with labels as `{{label}}`. */
  legend: string;
  /** Asks for the newest value alone. */
  instant?: boolean;
}

/** From this value on, a panel has this colour. The first level has no value. */
export interface Level {
  from: number | null;
  colour: string;
}

/** Levels of a value that must stay low. */
export function lowIsGood(warning: number, failure: number): Level[] {
  return [
    { from: null, colour: HEALTHY },
    { from: warning, colour: WARNING },
    { from: failure, colour: FAILED },
  ];
}

/** Levels of a value that must stay high. */
export function highIsGood(failure: number, warning: number): Level[] {
  return [
    { from: null, colour: FAILED },
    { from: failure, colour: WARNING },
    { from: warning, colour: HEALTHY },
  ];
}

/** Levels of a value without a good or bad side. */
export function plain(colour: string): Level[] {
  return [{ from: null, colour }];
}

/** Properties that every panel has. */
export interface Facts {
  title: string;
  unit: Unit;
  /** The quantity that the panel shows. */
  text: string;
  /** How a bad value looks, and its likely cause. */
  bad: string;
  /** Pages about the metric, and the runbook of an alert on it. */
  pages: [Page, ...Page[]];
  /** Width in the 24 columns of the grid. */
  width: number;
  height: number;
  queries: [Query, ...Query[]];
  decimals?: number;
  min?: number;
  max?: number;
  levels?: Level[];
  /** Colours of named series. Other series have a colour by their name. */
  palette?: Palette;
  /** Shown where the queries have no answer. */
  none?: string;
}

/** A panel and the place that it takes on the grid. */
export interface Placed {
  panel: Builder<dashboard.Panel>;
  width: number;
  height: number;
  at(position: dashboard.GridPos, id: number): void;
}

/** Methods that the builders of all kinds of panels share. */
interface AnyPanel extends Builder<dashboard.Panel> {
  id(id: number): this;
  title(title: string): this;
  description(text: string): this;
  datasource(source: common.DataSourceRef): this;
  targets(targets: Builder<Dataquery>[]): this;
  links(links: Builder<dashboard.DashboardLink>[]): this;
  gridPos(position: dashboard.GridPos): this;
  unit(unit: string): this;
  decimals(decimals: number): this;
  min(min: number): this;
  max(max: number): this;
  noValue(text: string): this;
  thresholds(thresholds: Builder<dashboard.ThresholdsConfig>): this;
  colorScheme(colour: Builder<dashboard.FieldColor>): this;
  overrideByName(name: string, properties: dashboard.DynamicConfigValue[]): this;
}

function placed<P extends AnyPanel>(panel: P, facts: Facts, format?: prometheus.PromQueryFormat): Placed {
  panel.title(facts.title).description(`${facts.text} Bad: ${facts.bad}`).datasource(SOURCE).unit(facts.unit);
  panel.noValue(facts.none ?? 'No data');
  panel.links(facts.pages.map(link));
  panel.targets(facts.queries.map((query, index) => target(query, index, format)));
  if (facts.decimals !== undefined) panel.decimals(facts.decimals);
  if (facts.min !== undefined) panel.min(facts.min);
  if (facts.max !== undefined) panel.max(facts.max);
  if (facts.levels) panel.thresholds(thresholds(facts.levels));
  for (const [name, colour] of Object.entries(facts.palette ?? {})) {
    panel.overrideByName(name, [{ id: 'color', value: { mode: 'fixed', fixedColor: colour } }]);
  }
  const at = (position: dashboard.GridPos, id: number) => void panel.gridPos(position).id(id);
  return { panel, width: facts.width, height: facts.height, at };
}

function link(to: Page): Builder<dashboard.DashboardLink> {
  return new dashboard.DashboardLinkBuilder(to.title)
    .type(dashboard.DashboardLinkType.Link)
    .url(`\${docs}/${to.path}`)
    .targetBlank(true);
}

function target(query: Query, index: number, format?: prometheus.PromQueryFormat): Builder<Dataquery> {
  const letter = String.fromCharCode('A'.charCodeAt(0) + index);
  const built = new prometheus.DataqueryBuilder()
    .datasource(SOURCE)
    .refId(letter)
    .expr(query.expr)
    .legendFormat(query.legend);
  if (format) built.format(format);
  return query.instant ? built.instant() : built.range();
}

function thresholds(levels: Level[]): Builder<dashboard.ThresholdsConfig> {
  const steps = levels.map(level => ({ value: level.from, color: level.colour }));
  return new dashboard.ThresholdsConfigBuilder().mode(dashboard.ThresholdsMode.Absolute).steps(steps);
}

function colour(mode: dashboard.FieldColorModeId): Builder<dashboard.FieldColor> {
  return new dashboard.FieldColorBuilder().mode(mode);
}

function reduced(by: string): Builder<common.ReduceDataOptions> {
  return new common.ReduceDataOptionsBuilder().calcs([by]).values(false).fields('');
}

export interface Lines extends Facts {
  /** Adds the series up: to their sum, or to 100 %. */
  stack?: 'sum' | 'share';
  /** Draws bars instead of lines. */
  bars?: boolean;
  /** Draws the thresholds as lines. */
  showLevels?: boolean;
  /** Colours of the series in the order of the queries, from light to dark. */
  logarithmic?: boolean;
  /** Marks single observations, with a link to their trace. */
  exemplars?: boolean;
  /** Values beside each name in the legend. */
  legend?: ('lastNotNull' | 'max' | 'mean' | 'sum')[];
  /** Where the legend has names alone, or too many for a list below. */
  legendAt?: 'bottom' | 'right';
}

/** Values over time, as lines, areas or bars. */
export function lines(facts: Lines): Placed {
  const panel = new timeseries.PanelBuilder();
  const stacked = facts.stack !== undefined;
  panel.lineWidth(facts.bars ? 0 : stacked ? 1 : 2).fillOpacity(facts.bars ? 85 : stacked ? 55 : 12);
  panel.gradientMode(stacked || facts.bars ? common.GraphGradientMode.None : common.GraphGradientMode.Opacity);
  panel.drawStyle(facts.bars ? common.GraphDrawStyle.Bars : common.GraphDrawStyle.Line);
  panel.showPoints(common.VisibilityMode.Never).spanNulls(false).axisBorderShow(false);
  panel.colorScheme(colour(dashboard.FieldColorModeId.PaletteClassicByName));
  const mode =
    facts.stack === 'share'
      ? common.StackingMode.Percent
      : stacked
        ? common.StackingMode.Normal
        : common.StackingMode.None;
  panel.stacking(new common.StackingConfigBuilder().mode(mode).group('A'));
  if (facts.logarithmic) {
    panel.scaleDistribution(new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Log).log(10));
  }
  if (facts.showLevels) {
    panel.thresholdsStyle(new common.GraphThresholdsStyleConfigBuilder().mode(common.GraphThresholdsStyleMode.Dashed));
  }
  const legend = new common.VizLegendOptionsBuilder().showLegend(true).calcs(facts.legend ?? ['lastNotNull']);
  legend.displayMode(facts.legendAt === 'right' ? common.LegendDisplayMode.Table : common.LegendDisplayMode.List);
  panel.legend(
    legend.placement(facts.legendAt === 'right' ? common.LegendPlacement.Right : common.LegendPlacement.Bottom),
  );
  panel.tooltip(
    new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(common.SortOrder.Descending),
  );
  const built = placed(panel, facts.stack === 'share' || facts.min !== undefined ? facts : { ...facts, min: 0 });
  if (facts.exemplars) panel.targets(facts.queries.map((query, index) => exemplars(query, index)));
  return built;
}

function exemplars(query: Query, index: number): Builder<Dataquery> {
  return (target(query, index) as prometheus.DataqueryBuilder).exemplar(true);
}

export interface Tile extends Facts {
  /** Hides the small graph behind the number. */
  bare?: boolean;
  /** Text in place of single values. */
  words?: { value: string; text: string; colour: string }[];
  /** Shows the names of the series instead of their values. */
  names?: boolean;
}

/** One number, with its course behind it. */
export function tile(facts: Tile): Placed {
  const panel = new stat.PanelBuilder();
  const instant = facts.queries.every(query => query.instant);
  panel.graphMode(facts.bare || instant ? common.BigValueGraphMode.None : common.BigValueGraphMode.Area);
  panel.colorMode(common.BigValueColorMode.Value).justifyMode(common.BigValueJustifyMode.Auto);
  panel.textMode(
    facts.names
      ? common.BigValueTextMode.Name
      : facts.queries.length > 1
        ? common.BigValueTextMode.ValueAndName
        : common.BigValueTextMode.Value,
  );
  panel.reduceOptions(reduced('lastNotNull')).colorScheme(colour(dashboard.FieldColorModeId.Thresholds));
  if (facts.words) {
    const options = Object.fromEntries(
      facts.words.map((word, index) => [word.value, { text: word.text, color: word.colour, index }]),
    );
    panel.mappings([{ type: dashboard.MappingType.ValueToText, options }]);
  }
  return placed(panel, { ...facts, levels: facts.levels ?? plain(NEUTRAL) });
}

/** The newest value of each series as a bar. */
export function bars(facts: Facts): Placed {
  const panel = new bargauge.PanelBuilder();
  panel.displayMode(common.BarGaugeDisplayMode.Gradient).orientation(common.VizOrientation.Horizontal);
  panel.valueMode(common.BarGaugeValueMode.Color).showUnfilled(true).namePlacement(common.BarGaugeNamePlacement.Auto);
  panel.reduceOptions(reduced('lastNotNull'));
  panel.colorScheme(
    colour(facts.levels ? dashboard.FieldColorModeId.Thresholds : dashboard.FieldColorModeId.PaletteClassicByName),
  );
  return placed(panel, { min: 0, ...facts });
}

/** The newest value of each series as a share of a ring. */
export function ring(facts: Facts): Placed {
  const panel = new piechart.PanelBuilder();
  panel.pieType(piechart.PieChartType.Donut).reduceOptions(reduced('lastNotNull'));
  panel.colorScheme(colour(dashboard.FieldColorModeId.PaletteClassicByName));
  const legend = new piechart.PieChartLegendOptionsBuilder()
    .showLegend(true)
    .displayMode(common.LegendDisplayMode.Table);
  panel.legend(
    legend
      .placement(common.LegendPlacement.Right)
      .values([piechart.PieChartLegendValues.Percent, piechart.PieChartLegendValues.Value]),
  );
  return placed(panel, facts);
}

export interface Heat extends Facts {
  /** The rows are buckets of a histogram, or named series. */
  rows: 'buckets' | 'names';
  scheme?: 'Blues' | 'Greens' | 'Oranges' | 'Purples' | 'Turbo' | 'Viridis' | 'Magma';
  /** Unit of the rows, where the rows are buckets. */
  rowUnit?: Unit;
}

/** Values by time and row, as colours. */
export function heat(facts: Heat): Placed {
  const panel = new heatmap.PanelBuilder();
  panel.calculate(false).cellGap(1).showValue(common.VisibilityMode.Never);
  const scheme = new heatmap.HeatmapColorOptionsBuilder()
    .mode(heatmap.HeatmapColorMode.Scheme)
    .scheme(facts.scheme ?? 'Viridis')
    .steps(64);
  panel.color(scheme.scale(heatmap.HeatmapColorScale.Exponential).exponent(0.5).fill('dark-blue').reverse(false));
  const axis = new heatmap.YAxisConfigBuilder().axisPlacement(common.AxisPlacement.Left);
  if (facts.rowUnit) axis.unit(facts.rowUnit);
  panel.yAxis(axis);
  panel.cellValues(new heatmap.CellValuesBuilder().unit(facts.unit));
  panel.showLegend();
  panel.tooltip(new heatmap.HeatmapTooltipBuilder().mode(common.TooltipDisplayMode.Single).yHistogram(true));
  panel.scaleDistribution(new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Linear));
  return placed(
    panel,
    facts,
    facts.rows === 'buckets' ? prometheus.PromQueryFormat.Heatmap : prometheus.PromQueryFormat.TimeSeries,
  );
}

export interface States extends Facts {
  words: { value: string; text: string; colour: string }[];
}

/** A state of each series over time, as a band of colours. */
export function states(facts: States): Placed {
  const panel = new statetimeline.PanelBuilder();
  panel.showValue(common.VisibilityMode.Never).mergeValues(true).rowHeight(0.8).fillOpacity(85).lineWidth(0);
  panel.colorScheme(colour(dashboard.FieldColorModeId.Thresholds));
  const options = Object.fromEntries(
    facts.words.map((word, index) => [word.value, { text: word.text, color: word.colour, index }]),
  );
  panel.mappings([{ type: dashboard.MappingType.ValueToText, options }]);
  panel.legend(
    new common.VizLegendOptionsBuilder()
      .showLegend(true)
      .displayMode(common.LegendDisplayMode.List)
      .placement(common.LegendPlacement.Bottom)
      .calcs([]),
  );
  return placed(panel, { ...facts, levels: facts.levels ?? plain(NEUTRAL) });
}

export interface Column {
  /** Title of the column, in the order of the queries. */
  title: string;
  unit: Unit;
  /** Draws a bar behind the value. */
  bar?: string;
  decimals?: number;
}

export interface Rows extends Facts {
  /** The label that names a row. */
  by: string;
  /** Title of the column of names. */
  heading: string;
  columns: Column[];
}

/** A table with a row for each value of a label, and a column for each query. */
export function rows(facts: Rows): Placed {
  const panel = new table.PanelBuilder();
  panel.showHeader(true).cellHeight(common.TableCellHeight.Sm);
  panel.withTransformation({ id: 'merge', options: {} });
  const letters = facts.queries.map((_, index) => String.fromCharCode('A'.charCodeAt(0) + index));
  const renamed = Object.fromEntries([
    [facts.by, facts.heading],
    ...facts.columns.map((column, index) => [`Value #${letters[index]}`, column.title]),
  ]);
  const hidden = { Time: true };
  const order = Object.fromEntries(
    [facts.by, ...letters.map(letter => `Value #${letter}`)].map((name, index) => [name, index]),
  );
  panel.withTransformation({
    id: 'organize',
    options: { excludeByName: hidden, renameByName: renamed, indexByName: order },
  });
  panel.sortBy([
    new common.TableSortByFieldStateBuilder().displayName(facts.columns[0]?.title ?? facts.heading).desc(true),
  ]);
  for (const column of facts.columns) {
    const properties: dashboard.DynamicConfigValue[] = [{ id: 'unit', value: column.unit }];
    if (column.decimals !== undefined) properties.push({ id: 'decimals', value: column.decimals });
    if (column.bar) {
      properties.push({
        id: 'custom.cellOptions',
        value: { type: 'gauge', mode: 'gradient', valueDisplayMode: 'text' },
      });
      properties.push({ id: 'color', value: { mode: 'fixed', fixedColor: column.bar } }, { id: 'min', value: 0 });
    }
    panel.overrideByName(column.title, properties);
  }
  return placed(
    panel,
    { ...facts, queries: facts.queries.map(query => ({ ...query, instant: true })) as Facts['queries'] },
    prometheus.PromQueryFormat.Table,
  );
}
