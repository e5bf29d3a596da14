// Addresses inside the console. The part after `#` names the page, so the server needs no routes and
// never learns a job's name from an address.

export const PAGES = [
  'overview',
  'jobs',
  'job',
  'keys',
  'tenants',
  'tenant',
  'errors',
  'error',
  'audit',
  'login',
] as const;
export type PageName = (typeof PAGES)[number];

export interface Route {
  /** Null if no page has this name. */
  page: PageName | null;
  parameters: ReadonlyMap<string, string>;
}

/** Reads `#/job?name=tenants%2Fa`. An empty address is the overview. */
export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = split(hash.replace(/^#\/?/, ''), '?');
  const parameters = new Map(new URLSearchParams(query));
  const name = path === '' ? 'overview' : path;
  return { page: PAGES.find(page => page === name) ?? null, parameters };
}

/** The address of a page, for `href`. */
export function addressOf(page: PageName, parameters: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(parameters).toString();
  return `#/${page}${query === '' ? '' : `?${query}`}`;
}

/** Splits at the first separator. */
function split(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
