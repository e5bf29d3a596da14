// Data that is read when a page opens, and again at an interval. While the server is gone, the last
// data stay, and the pause between tries grows. A hidden tab asks nothing.

import { useEffect, useRef, useState } from 'preact/hooks';

import { nextDelayMs } from './backoff.js';
import { RefusedError } from './client.js';

export interface Polled<Answer> {
  data: Answer | null;
  /** Why the last try failed, if the server refused the call. A server that is gone has its banner. */
  refusal: RefusedError | null;
  refresh: () => void;
}

/**
 * Reads with `load` now, and again every `intervalMs`, or only once if that is null. `subject` says what is
 * read: when it changes, the old data go and the new are read at once.
 */
export function usePolled<Answer>(
  subject: string,
  intervalMs: number | null,
  load: (signal: AbortSignal) => Promise<Answer>,
): Polled<Answer> {
  const [state, setState] = useState<{ subject: string; data: Answer | null; refusal: RefusedError | null }>({
    subject,
    data: null,
    refusal: null,
  });
  const refresh = useRef(() => {});
  const newestLoad = useRef(load);
  newestLoad.current = load;

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let isReading = false;

    const readAgain = async () => {
      if (isReading) return;
      clearTimeout(timer);
      isReading = true;
      try {
        const data = await newestLoad.current(abort.signal);
        if (abort.signal.aborted) return;
        failures = 0;
        setState({ subject, data, refusal: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        if (error instanceof RefusedError) {
          setState(({ data, subject: of }) => ({ subject, data: of === subject ? data : null, refusal: error }));
        }
        failures += 1;
      } finally {
        isReading = false;
      }
      // Data that are read once are still tried again until they have come.
      if (failures === 0 && intervalMs === null) return;
      timer = setTimeout(readUnlessHidden, nextDelayMs(intervalMs ?? 1000, failures));
    };
    const readUnlessHidden = () => {
      if (document.visibilityState === 'visible') void readAgain();
    };
    const onReturn = () => {
      if (document.visibilityState === 'visible' && (intervalMs !== null || failures > 0)) void readAgain();
    };

    refresh.current = () => void readAgain();
    document.addEventListener('visibilitychange', onReturn);
    addEventListener('online', onReturn);
    void readAgain();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onReturn);
      removeEventListener('online', onReturn);
    };
  }, [subject, intervalMs]);

  const isCurrent = state.subject === subject;
  return {
    data: isCurrent ? state.data : null,
    refusal: isCurrent ? state.refusal : null,
    refresh: () => refresh.current(),
  };
}
