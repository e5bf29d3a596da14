// Pools as cards: who computes, and how long the queue before them is.

import type { Pool } from '../../api/contract.js';
import { bytes, count, seconds } from '../../format.js';
import { Name } from '../../parts/name.js';
import { Card, Facts, Meter } from '../../parts/page.js';
import { Empty } from '../../parts/states.js';

/** A backlog that fills the bar. */
const BACKLOG_SECONDS_FULL = 60;

export function Pools({ pools }: { pools: Pool[] }) {
  return (
    <Card title="Pools" note="Workers with one kind of device">
      {pools.length === 0 ? (
        <Empty title="No pool yet">
          A pool appears with its first worker. <code>cloakwork-worker --help</code> says how one joins.
        </Empty>
      ) : (
        <ul class="pools">
          {pools.map(pool => (
            <li key={pool.kind} class="pool">
              <PoolCard pool={pool} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function PoolCard({ pool }: { pool: Pool }) {
  const { backlog_seconds: backlog } = pool;
  const facts: [string, string][] = [
    ['workers', pool.draining > 0 ? `${count(pool.workers)}, ${count(pool.draining)} draining` : count(pool.workers)],
    ['jobs', count(pool.jobs)],
    ['keys in memory', `${count(pool.resident_keys)}, ${bytes(pool.resident_bytes)}`],
  ];
  return (
    <>
      <h3 class="pool-kind">
        <Name text={pool.kind} />
      </h3>
      <p class="pool-backlog">
        <span class="pool-backlog-value">{backlog === null ? '–' : seconds(backlog)}</span>
        <span class="pool-backlog-label">{backlog === null ? 'not declared: no backlog' : 'backlog'}</span>
      </p>
      <Meter share={(backlog ?? 0) / BACKLOG_SECONDS_FULL} colour={backlogColour(backlog ?? 0)} />
      <Facts facts={facts} />
    </>
  );
}

function backlogColour(backlogSeconds: number): string {
  if (backlogSeconds < BACKLOG_SECONDS_FULL / 2) return '--accent';
  return backlogSeconds < BACKLOG_SECONDS_FULL ? '--warm' : '--bad';
}
