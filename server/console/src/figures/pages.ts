// A list of jobs that is read page by page, while its first page is read again and again.

/** Entries that the console keeps. Beyond it, "Load more" ends. */
export const KEPT_ENTRIES_MAX = 1000;

export interface Listing<Item> {
  items: Item[];
  /** The position of the next page, or null at the end. */
  next: string | null;
}

/**
 * Puts a new first page before the entries that are known. If the page has none of these in common
 * with the known ones, entries between them may be missing: the listing begins again.
 */
export function withFirstPage<Item>(
  known: Listing<Item>,
  page: Listing<Item>,
  idOf: (item: Item) => string,
): Listing<Item> {
  const ids = new Set(page.items.map(idOf));
  const older = known.items.filter(item => !ids.has(idOf(item)));
  const isConnected = older.length < known.items.length;
  if (!isConnected) return page;
  const newest = page.items.length;
  // Only a page that the user has asked for makes the list longer than one page.
  if (known.items.length <= newest) return page;
  return { items: [...page.items, ...older].slice(0, KEPT_ENTRIES_MAX), next: known.next };
}

/** Puts a further page after the entries that are known. */
export function withNextPage<Item>(
  known: Listing<Item>,
  page: Listing<Item>,
  idOf: (item: Item) => string,
): Listing<Item> {
  const ids = new Set(known.items.map(idOf));
  const items = [...known.items, ...page.items.filter(item => !ids.has(idOf(item)))].slice(0, KEPT_ENTRIES_MAX);
  return { items, next: items.length < KEPT_ENTRIES_MAX ? page.next : null };
}
