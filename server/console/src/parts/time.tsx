// Times: short on the page, and whole in the tooltip.

import { age, dateTime, isoTime } from '../format.js';
import { nowMicros } from '../state/connection.js';

interface Props {
  micros: number;
  /** The server's time if it is known, so that a browser with a wrong clock shows right ages. */
  now?: number;
}

/** How long ago something was. */
export function Age({ micros, now = nowMicros() }: Props) {
  return (
    <time class="time" dateTime={isoTime(micros)} title={`${dateTime(micros)} (${isoTime(micros)})`}>
      {age(micros, now)}
    </time>
  );
}

export function DateTime({ micros }: Props) {
  return (
    <time class="time" dateTime={isoTime(micros)} title={isoTime(micros)}>
      {dateTime(micros)}
    </time>
  );
}
