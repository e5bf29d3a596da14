// Whether the server answers. All calls report here, and the banner shows it.

import { signal } from '@preact/signals';

export interface Connection {
  isGone: boolean;
  /** When the last answer came. */
  answeredMicros: number;
}

export const connection = signal<Connection>({ isGone: false, answeredMicros: nowMicros() });

export function reportAnswer(): void {
  connection.value = { isGone: false, answeredMicros: nowMicros() };
}

export function reportSilence(): void {
  if (!connection.value.isGone) connection.value = { ...connection.value, isGone: true };
}

/** The browser's time, in the unit of the API. */
export function nowMicros(): number {
  return Date.now() * 1000;
}
