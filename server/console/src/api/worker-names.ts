// Display names of workers, for pages on which the server sends only their resource names. Without
// them a page shows ids.

import { useEffect } from 'preact/hooks';

import { rememberWorkers } from '../state/workers.js';
import { read } from './client.js';
import type { Overview } from './contract.js';
import { usePolled } from './polled.js';

export function useWorkerNames(): void {
  const { data } = usePolled<Overview>('worker names', null, signal => read('overview', {}, signal));
  useEffect(() => {
    if (data) rememberWorkers(data.workers);
  }, [data]);
}
