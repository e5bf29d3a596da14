// Display names of workers, for pages on which the server sends only their resource names.

import { signal } from '@preact/signals';

import type { Worker } from '../api/contract.js';

export const workerNames = signal<ReadonlyMap<string, string>>(new Map());

export function rememberWorkers(workers: readonly Worker[]): void {
  workerNames.value = new Map(workers.map(worker => [worker.name, worker.display_name]));
}
