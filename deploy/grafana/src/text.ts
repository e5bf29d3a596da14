// The text of a board's file.

import { type Board, rendered } from './grid.js';

/** The board as JSON. `docs` is the address below which the pages of docs/ are served. */
export function text(board: Board, docs?: string): string {
  // The SDK moves links and annotations into a menu, where nobody sees them.
  const shown = (key: string, value: unknown) =>
    key === 'placement' && value === 'inControlsMenu' ? undefined : value;
  return `${JSON.stringify(rendered(board, docs), shown, 2)}\n`;
}
