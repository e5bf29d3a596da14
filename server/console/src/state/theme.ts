// Dark or light: as the system says, or as the user chose. The choice is kept in the browser.

import { effect, signal } from '@preact/signals';

const STORAGE_KEY = 'cloakwork.theme';

export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

export const theme = signal<Theme>(storedTheme());

/** Counts changes of the colours, by the user or by the system. Charts draw again when it changes. */
export const paletteVersion = signal(0);

export function followTheme(): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    paletteVersion.value += 1;
  });
  effect(() => {
    const chosen = theme.value;
    if (chosen === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = chosen;
    paletteVersion.value = paletteVersion.peek() + 1;
  });
}

export function chooseNextTheme(): void {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system';
  theme.value = next;
  try {
    localStorage.setItem(STORAGE_KEY, next);
  } catch {
    // A browser that forbids storage forgets the choice when the page closes.
  }
}

function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem(STORAGE_KEY);
    return THEMES.find(theme => theme === stored) ?? 'system';
  } catch {
    return 'system';
  }
}
