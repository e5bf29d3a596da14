// Texts that others choose: usual ones, and ones that try to break the page.

export interface Texts {
  tenant: (index: number) => string;
  worker: (index: number) => string;
  /** Any other text that the server repeats: messages, details, operations, names of pools. */
  free: (usual: string) => string;
}

const TENANTS = [
  'acme-health',
  'northwind',
  'helix-genomics',
  'payroll',
  'tidewater',
  'ledgerly',
  'orbit-ads',
  'field-lab',
  'demo',
];

export const USUAL_TEXTS: Texts = {
  tenant: index => TENANTS[index % TENANTS.length] ?? 'demo',
  worker: index => ['rack-1-gpu', 'rack-2-gpu', 'rack-3-gpu', 'epyc-7', 'epyc-8', 'embedded'][index % 6] ?? 'embedded',
  free: usual => usual,
};

/** Each of these marks the page if it is taken for HTML. */
const ATTACKS = [
  '<img src=x onerror="window.cracked=1">',
  '<script>window.cracked=1</script>',
  '"><svg onload="window.cracked=1">',
  "javascript:window.cracked=1//'",
  '</textarea><style>*{display:none}</style>',
  '\u202etxet desrever \u0000\u001b[31m',
];

function attack(index: number): string {
  return ATTACKS[index % ATTACKS.length] ?? '';
}

/** The index keeps names different, as the server's are. */
export const HOSTILE_TEXTS: Texts = {
  tenant: index => `${attack(index)}${index % 9}`,
  worker: index => `${attack(index + 1)}${index}`,
  free: usual => `${attack(usual.length)} ${usual} [x](javascript:window.cracked=1) ${attack(usual.length + 1)}`,
};

const LONG = 'a-very-long-name-'.repeat(600).slice(0, 10_000);
const UNBROKEN = 'x'.repeat(10_000);

export const LONG_TEXTS: Texts = {
  tenant: index => `${index % 9}${LONG}`,
  worker: index => `${index}${UNBROKEN}`,
  free: usual => `${usual}${UNBROKEN}`,
};
