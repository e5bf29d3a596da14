// When to ask the server again.

const BACKOFF_MS_MAX = 30_000;

/** The usual interval after a success. Each further failure doubles the time, up to half a minute. */
export function nextDelayMs(intervalMs: number, failures: number): number {
  if (failures === 0) return intervalMs;
  return Math.min(Math.max(intervalMs, 1000) * 2 ** Math.min(failures - 1, 10), Math.max(intervalMs, BACKOFF_MS_MAX));
}
