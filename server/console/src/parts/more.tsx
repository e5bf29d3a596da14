// The button below a list that reads its next page.

import { useState } from 'preact/hooks';

import type { Listed } from '../api/listed.js';
import { count } from '../format.js';

export function More<Item>({ listed }: { listed: Listed<Item> }) {
  const [isLoading, setLoading] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const { loadMore, isCut, data } = listed;
  if (isCut) return <p class="more-note">The console shows the newest {count(data?.length ?? 0)} entries.</p>;
  if (loadMore === null) return null;

  const load = async () => {
    setLoading(true);
    setFailure(null);
    try {
      await loadMore();
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    } finally {
      setLoading(false);
    }
  };
  return (
    <div class="more">
      <button type="button" class="button" disabled={isLoading} onClick={() => void load()}>
        {isLoading ? 'Loading' : 'Load more'}
      </button>
      {failure !== null && (
        <p role="alert" class="text-bad">
          <bdi>{failure}</bdi>
        </p>
      )}
    </div>
  );
}
