// Colours of the pictures: the theme, series without a colour of their own, and heat.

import type { Defaults, Panel } from '../checks/json.js';

export const THEME = {
  page: '#0a0e16',
  panel: '#121927',
  edge: '#1e293b',
  grid: '#1d2738',
  axis: '#64748b',
  text: '#e6edf7',
  soft: '#93a3b8',
  faint: '#5b6b82',
  accent: '#7c83ff',
};

/** Colours of series that the board gives none. Neighbours differ in hue and lightness. */
const SERIES = [
  '#5aa9ff',
  '#3ddc97',
  '#b48cff',
  '#ffb454',
  '#f58ac8',
  '#3fd0e0',
  '#b4dc5a',
  '#ff8f6b',
  '#7c83ff',
  '#2fb8a6',
  '#e3c98f',
  '#e86fa0',
  '#8fb8de',
  '#c9a4ff',
];

/** Gives each name of a series one colour on the whole board. */
export class Colours {
  private readonly known = new Map<string, string>();

  of(name: string, panel: Panel): string {
    const override = (panel.fieldConfig?.overrides ?? []).find(
      ({ matcher }) => matcher.id === 'byName' && matcher.options === name,
    );
    const value = override?.properties.find(property => property.id === 'color')?.value as
      { fixedColor?: string } | undefined;
    if (value?.fixedColor) return value.fixedColor;
    const known = this.known.get(name) ?? SERIES[this.known.size % SERIES.length] ?? THEME.soft;
    this.known.set(name, known);
    return known;
  }
}

/** The colour of the highest threshold that a value reaches. */
export function level(value: number | null, defaults: Defaults | undefined): string {
  const steps = defaults?.thresholds?.steps ?? [];
  const reached = value === null ? [] : steps.filter(step => step.value === null || value >= step.value);
  return reached.at(-1)?.color ?? THEME.soft;
}

const HEAT: Record<string, string[]> = {
  Blues: ['#14233d', '#173e6b', '#1c65a8', '#3f93e0', '#8fc7ff', '#e2f2ff'],
  Greens: ['#11271f', '#14463a', '#17705a', '#2aa883', '#7fe0bb', '#e0fff2'],
  Purples: ['#1f1a38', '#3a2b6b', '#5d43ab', '#8f6be6', '#c3a8ff', '#f1e9ff'],
  Oranges: ['#2b1d14', '#5a3414', '#985214', '#dd8426', '#ffbf72', '#fff0dc'],
  Turbo: ['#1b2a5e', '#1f6fb8', '#22b8a6', '#8fd14f', '#ffc145', '#ff5c4d'],
  Viridis: ['#1b1440', '#33418a', '#2a788e', '#22a884', '#8fd744', '#fde725'],
  Magma: ['#140e36', '#4a1079', '#9f2f7f', '#e75263', '#fd9a6a', '#fcfdbf'],
};

/** The colour of a share of the greatest heat. */
export function heat(share: number, scheme: string): string {
  const stops = HEAT[scheme] ?? HEAT['Viridis'] ?? [];
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(place));
  return mixed(stops[index] ?? '#000000', stops[index + 1] ?? '#ffffff', place - index);
}

function mixed(one: string, other: string, share: number): string {
  const part = (colour: string, at: number) => Number.parseInt(colour.slice(at, at + 2), 16);
  const hex = (at: number) =>
    Math.round(part(one, at) + (part(other, at) - part(one, at)) * share)
      .toString(16)
      .padStart(2, '0');
  return `#${hex(1)}${hex(3)}${hex(5)}`;
}

/** A colour that lets the panel shine through. */
export function faded(colour: string, opacity: number): string {
  return `${colour}${Math.round(opacity * 255)
    .toString(16)
    .padStart(2, '0')}`;
}
