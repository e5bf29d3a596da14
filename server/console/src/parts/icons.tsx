// Icons as outlines on a grid of 20. Each repeats a text beside it, so screen readers skip all of them.

const OUTLINES = {
  overview: 'M2 7c2.700-3 5.300-3 8 0s5.300 3 8 0M2 13c2.700-3 5.300-3 8 0s5.300 3 8 0',
  jobs: 'M3 5h9M3 10h14M3 15h6',
  keys: 'M7.500 12.500a4 4 0 1 1 2.800-1.200L17 18M14.200 15.200l1.800-1.800',
  tenants:
    'M7 9.500a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM1.500 17c0-3 2.300-5 5.500-5s5.500 2 5.500 5M13 4a3 3 0 0 1 0 5.500M15 12.300c2.200.600 3.500 2.400 3.500 4.700',
  errors: 'M10 3 1.800 17h16.400L10 3ZM10 8v4.500M10 14.800v.1',
  audit: 'M5 2.500h10v15l-2.500-1.500-2.500 1.500-2.500-1.500L5 17.500v-15ZM8 7h4M8 10.500h4',
  system: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM10 3v14M10 6.500h5.500M10 10h7M10 13.500h5.500',
  light:
    'M10 6.500a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7ZM10 1.500v2M10 16.500v2M1.500 10h2M16.500 10h2M4 4l1.400 1.400M14.600 14.600 16 16M4 16l1.400-1.400M14.600 5.400 16 4',
  dark: 'M16.500 12.500A7 7 0 0 1 7.500 3.500a7 7 0 1 0 9 9Z',
  leave: 'M8 3H4v14h4M12 6.500 15.500 10 12 13.500M15 10H7.500',
  arrow: 'M7.500 4.500 13 10l-5.500 5.500',
  back: 'M12.500 4.500 7 10l5.500 5.500',
  outside: 'M8 5H4.500v10.500H15V12M11 4h5v5M16 4l-7 7',
} as const;

export type IconName = keyof typeof OUTLINES;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={OUTLINES[name]} />
    </svg>
  );
}

/** Three waves, the newest on top. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path d="M5 11c3.700-4.500 7.300-4.500 11 0s7.300 4.500 11 0" />
      <path class="mark-second" d="M5 17c3.700-4.500 7.300-4.500 11 0s7.300 4.500 11 0" />
      <path class="mark-third" d="M5 23c3.700-4.500 7.300-4.500 11 0s7.300 4.500 11 0" />
    </svg>
  );
}
