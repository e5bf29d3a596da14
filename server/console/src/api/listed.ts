// A list that is read page by page. Its first page may be polled.

import { useEffect, useState } from 'preact/hooks';

import { KEPT_ENTRIES_MAX, withFirstPage, withNextPage, type Listing } from '../figures/pages.js';
import type { RefusedError } from './client.js';
import { usePolled } from './polled.js';

export interface Listed<Item> {
  data: Item[] | null;
  refusal: RefusedError | null;
  refresh: () => void;
  /** Null at the end of the list. */
  loadMore: (() => Promise<void>) | null;
  /** Whether the list is longer than the console keeps. */
  isCut: boolean;
}

/** `load` reads the page at a position, or the first page if it is undefined. */
export function useListed<Item>(
  subject: string,
  intervalMs: number | null,
  idOf: (item: Item) => string,
  load: (position: string | undefined, signal?: AbortSignal) => Promise<Listing<Item>>,
): Listed<Item> {
  const first = usePolled(subject, intervalMs, signal => load(undefined, signal));
  const [known, setKnown] = useState<Listing<Item> | null>(null);

  useEffect(() => {
    const page = first.data;
    if (page) setKnown(before => (before ? withFirstPage(before, page, idOf) : page));
  }, [first.data]);

  const next = known?.next ?? null;
  const loadMore = async () => {
    if (next === null) return;
    const page = await load(next);
    setKnown(before => (before ? withNextPage(before, page, idOf) : page));
  };
  return {
    data: known?.items ?? null,
    refusal: first.refusal,
    refresh: first.refresh,
    loadMore: next === null ? null : loadMore,
    isCut: (known?.items.length ?? 0) >= KEPT_ENTRIES_MAX,
  };
}
