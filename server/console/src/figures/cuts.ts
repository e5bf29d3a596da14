// Reasons why waves were cut. A wave is as wide as the device can use, or something cut it off.

import { CUTS, type Cut } from '../api/contract.js';

const TEXTS: Readonly<Record<Cut, string>> = {
  full: 'as wide as the device can use',
  idle: 'no other bootstrap was ready',
  deadline: "a job's deadline was near",
  other_key: 'the other bootstraps need another key',
  drain: 'the worker drains',
};

export function isCut(name: string): name is Cut {
  return (CUTS as readonly string[]).includes(name);
}

export function cutText(name: string): string {
  return isCut(name) ? TEXTS[name] : 'a reason that this console does not know';
}

/** The custom property with the colour of a reason. */
export function cutColour(name: string): string {
  return isCut(name) ? `--cut-${name.replace('_', '-')}` : '--cut-unknown';
}
