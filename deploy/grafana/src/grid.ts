// Places panels on the grid of a board, and gives each an id.

import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';

import { annotation, type Mark } from './marks.js';
import type { Placed } from './panels.js';
import { control, type Control, documentation, source } from './variables.js';

const COLUMNS = 24;
/** Ids of the panels of a row begin with the number of the row. */
const IDS_PER_ROW = 100;

/** Panels under one heading. */
export interface Row {
  title: string;
  /** Closed when the board opens. Grafana asks for the data of an open row alone. */
  closed?: boolean;
  panels: Placed[];
}

export interface Board {
  /** Name of the file, and end of the board's address. */
  name: string;
  title: string;
  text: string;
  controls: Control[];
  marks: Mark[];
  /** Time that the board shows at first. */
  from: string;
  rows: Row[];
}

/** All boards have this tag. The menu of each board lists the boards with the tag. */
const TAG = 'cloakwork';

/** The board in the form that Grafana reads. */
export function rendered(board: Board, docs?: string): dashboard.Dashboard {
  const built = new dashboard.DashboardBuilder(board.title);
  built.uid(`cloakwork-${board.name}`).description(board.text).tags([TAG]).timezone('browser').editable();
  built.time({ from: board.from, to: 'now' }).refresh('30s').tooltip(dashboard.DashboardCursorSync.Crosshair);
  built.withVariable(source()).withVariable(documentation(docs));
  for (const name of board.controls) built.withVariable(control(name));
  for (const mark of board.marks) built.annotation(annotation(mark));
  built.link(
    new dashboard.DashboardLinkBuilder('Boards')
      .type(dashboard.DashboardLinkType.Dashboards)
      .tags([TAG])
      .asDropdown(true)
      .keepTime(true)
      .includeVars(true),
  );
  let top = 0;
  for (const [index, row] of board.rows.entries()) {
    top = place(built, row, index + 1, top);
  }
  return built.build();
}

/** Adds a row whose heading is at `top`, and returns the first free line below it. */
function place(built: dashboard.DashboardBuilder, row: Row, number: number, top: number): number {
  const heading = new dashboard.RowBuilder(row.title).id(number * IDS_PER_ROW).collapsed(row.closed ?? false);
  heading.gridPos({ x: 0, y: top, w: COLUMNS, h: 1 });
  let [x, y, height] = [0, top + 1, 0];
  for (const [index, panel] of row.panels.entries()) {
    if (x + panel.width > COLUMNS) {
      [x, y, height] = [0, y + height, 0];
    }
    panel.at({ x, y, w: panel.width, h: panel.height }, number * IDS_PER_ROW + 1 + index);
    x += panel.width;
    height = Math.max(height, panel.height);
    if (row.closed) heading.withPanel(panel.panel);
  }
  built.withRow(heading);
  if (!row.closed) {
    for (const panel of row.panels) built.withPanel(panel.panel);
  }
  return y + height;
}
