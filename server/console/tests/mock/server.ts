// A server that answers as the console's server does, with made-up data. The answers have the
// same policy, and writes without the CSRF token are refused.

import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';

import { auditEntries, keys, reasons, tenants, usage } from './accounts.js';
import { jobs } from './jobs.js';
import { emptyOverview, overview, workerName } from './overview.js';
import { HOSTILE_TEXTS, LONG_TEXTS, USUAL_TEXTS, type Texts } from './texts.js';

export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
export const CSRF = 'csrf-of-this-session';
export const GOOD_LINK = 'link-that-works-once';
export const GOOD_TOKEN = 'cw_admin';
const COOKIE = 'cloakwork_console=a-session';
const PAGE_ENTRIES = 50;

export interface Scene {
  data: 'usual' | 'empty' | 'hostile' | 'long';
  /** `gone` breaks connections, and `proxy` answers as a proxy without a server behind it. */
  reach: 'usual' | 'gone' | 'proxy';
  canWrite: boolean;
  /** The time that the data are made for, or null for the present. */
  nowMicros: number | null;
}

export interface Seen {
  method: string;
  path: string;
  query: URLSearchParams;
  csrf: string | undefined;
  body: string;
}

export interface Mock {
  origin: string;
  /** Changes take effect with the next call. */
  scene: Scene;
  seen: Seen[];
  /** The cookie of a session, as a browser keeps it. */
  cookie: { name: string; value: string };
  endSessions: () => void;
  /** Forgets all that tests have changed. */
  reset: () => void;
  close: () => Promise<void>;
}

const TEXTS: Readonly<Record<Scene['data'], Texts>> = {
  usual: USUAL_TEXTS,
  empty: USUAL_TEXTS,
  hostile: HOSTILE_TEXTS,
  long: LONG_TEXTS,
};

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

export async function startMock(dist: string, port = 0): Promise<Mock> {
  const scene = usualScene();
  const state = usualState();
  const seen: Seen[] = [];

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://mock');
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      response.setHeader('Content-Security-Policy', POLICY);
      response.setHeader('X-Content-Type-Options', 'nosniff');
      response.setHeader('Referrer-Policy', 'no-referrer');
      if (!url.pathname.startsWith('/console/api/')) return sendFile(dist, url.pathname, response);
      const path = url.pathname.slice('/console/api/'.length);
      const csrf = request.headers['x-csrf-token'];
      const body = Buffer.concat(chunks).toString();
      seen.push({
        method: request.method ?? '',
        path,
        query: url.searchParams,
        csrf: Array.isArray(csrf) ? csrf[0] : csrf,
        body,
      });
      if (scene.reach === 'gone') return void request.socket.destroy();
      if (scene.reach === 'proxy')
        return void response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>502</h1>');
      return answer(request, response, path, url.searchParams, body);
    });
  });

  function answer(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
    body: string,
  ) {
    const now = scene.nowMicros ?? Date.now() * 1000;
    const texts = TEXTS[scene.data];
    const isEmpty = scene.data === 'empty';
    const session = {
      actor: texts.free('mira'),
      can_write: scene.canWrite,
      expires_micros: now + 3600e6,
    };
    if (path === 'login' && request.method === 'POST') {
      const proof = JSON.parse(body) as { link?: string; token?: string };
      if (proof.link !== GOOD_LINK && proof.token !== GOOD_TOKEN) {
        return refuse(response, 401, 'UNAUTHENTICATED', texts.free('the token or link is not valid'));
      }
      state.hasSession = true;
      response.setHeader('Set-Cookie', `${COOKIE}; HttpOnly; SameSite=Strict; Path=/console`);
      return send(response, { ...session, csrf: CSRF });
    }
    if (!state.hasSession || !(request.headers.cookie ?? '').includes(COOKIE)) {
      return refuse(response, 401, 'UNAUTHENTICATED', 'sign in first');
    }
    if (request.headers['x-csrf-token'] !== CSRF)
      return refuse(response, 401, 'UNAUTHENTICATED', 'the CSRF token is missing');
    if (request.method === 'POST') return write(response, path, body);

    const before = query.get('before') ?? query.get('after');
    switch (path) {
      case 'session':
        return send(response, session);
      case 'overview':
        return send(response, isEmpty ? emptyOverview(now, texts) : overview(now, texts, state.drained));
      case 'jobs': {
        const [tenant, state] = [query.get('tenant'), query.get('state')];
        if (state !== null && tenant === null)
          return refuse(response, 400, 'INVALID_ARGUMENT', 'jobs are listed by state for one tenant only');
        const all = isEmpty ? [] : jobs(now, texts).map(job => ({ ...job, latency: null }));
        const chosen = all.filter(job => (tenant ?? job.tenant) === job.tenant && (state ?? job.state) === job.state);
        const { items, next } = pageOf(chosen, before);
        return send(response, { jobs: items, next });
      }
      case 'job': {
        const job = jobs(now, texts).find(({ name }) => name === query.get('name'));
        if (!job) return refuse(response, 404, 'JOB_NOT_FOUND', texts.free('there is no job with this name'));
        return send(response, state.cancelled.has(job.name) ? { ...job, state: 'cancelled', stage: null } : job);
      }
      case 'keys': {
        const { items, next } = pageOf(isEmpty ? [] : keys(now, texts), before);
        return send(response, { keys: items, next });
      }
      case 'tenants':
        return send(response, { tenants: isEmpty ? [] : tenants(now, texts) });
      case 'usage':
        return send(response, {
          days: isEmpty ? [] : usage(now, texts, Number(query.get('days')), query.get('tenant')),
        });
      case 'errors':
        return send(response, { reasons: isEmpty ? [] : reasons(texts) });
      case 'audit': {
        const { items, next } = pageOf(isEmpty ? [] : auditEntries(now, texts), before);
        return send(response, { entries: items, next });
      }
      default:
        return refuse(response, 404, 'METHOD_UNKNOWN', 'there is no such call');
    }
  }

  function write(response: ServerResponse, path: string, body: string) {
    const { worker = '', name = '' } = JSON.parse(body) as { worker?: string; name?: string };
    if (path === 'logout') state.hasSession = false;
    else if (!scene.canWrite) return refuse(response, 403, 'PERMISSION_DENIED', 'this session may only read');
    else if (path === 'drain') state.drained.add(worker);
    else if (path === 'resume') state.drained.delete(worker);
    else if (path === 'cancel') state.cancelled.add(name);
    else return refuse(response, 404, 'METHOD_UNKNOWN', 'there is no such call');
    return send(response, {});
  }

  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve));
  const [name = '', value = ''] = COOKIE.split('=');
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    scene,
    seen,
    cookie: { name, value },
    endSessions: () => {
      state.hasSession = false;
    },
    reset: () => {
      Object.assign(scene, usualScene());
      Object.assign(state, usualState());
      seen.length = 0;
    },
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function usualScene(): Scene {
  return { data: 'usual', reach: 'usual', canWrite: true, nowMicros: null };
}

function usualState() {
  return { hasSession: true, drained: new Set([workerName(2)]), cancelled: new Set<string>() };
}

function pageOf<Item>(all: Item[], position: string | null): { items: Item[]; next: string | null } {
  const begin = position === null ? 0 : Number(position);
  const end = begin + PAGE_ENTRIES;
  return { items: all.slice(begin, end), next: end < all.length ? `${end}` : null };
}

function send(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

function refuse(response: ServerResponse, status: number, reason: string, message: string): void {
  response
    .writeHead(status, { 'Content-Type': 'application/json' })
    .end(JSON.stringify({ error: { reason, message } }));
}

function sendFile(dist: string, path: string, response: ServerResponse): void {
  const inside = path === '/console/' ? 'index.html' : normalize(path).replace(/^\/console\//, '');
  try {
    const content = readFileSync(join(dist, inside));
    response.writeHead(200, { 'Content-Type': TYPES[extname(inside)] ?? 'application/octet-stream' }).end(content);
  } catch {
    response.writeHead(404).end();
  }
}
