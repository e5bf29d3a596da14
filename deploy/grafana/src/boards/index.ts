// All boards, in the order of the menu.

import type { Board } from '../grid.js';
import { devices } from './devices.js';
import { internals } from './internals.js';
import { overview } from './overview.js';
import { tenants } from './tenants.js';

export const BOARDS: Board[] = [overview, internals, devices, tenants];
