// The pages of docs/errors. The build puts each into a file of its own, which is read when its page
// opens.

import { parseMarkdown, type Block } from '../../figures/markdown.js';

const FILES = import.meta.glob<string>('../../../../../docs/errors/*.md', { query: '?raw', import: 'default' });

const PAGES = new Map(Object.entries(FILES).map(([path, load]) => [reasonOf(path), load]));

/** All reasons that have a page, in the order of the alphabet. */
export const REASONS_WITH_PAGE: readonly string[] = [...PAGES.keys()].filter(isReason).sort();

/** The page of a reason, or null if there is none. */
export async function readPage(reason: string): Promise<Block[] | null> {
  const load = isReason(reason) ? PAGES.get(reason) : undefined;
  return load ? parseMarkdown(await load()) : null;
}

function reasonOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1).replace(/\.md$/, '');
}

/** README.md and its like are no reasons. */
function isReason(name: string): boolean {
  return /^[A-Z][A-Z0-9_]*$/.test(name) && name !== 'README';
}
