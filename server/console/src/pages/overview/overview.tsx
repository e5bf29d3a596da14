// The first page: what the service does now, and what it did in the last minutes.

import { useEffect } from 'preact/hooks';

import { read } from '../../api/client.js';
import type { Overview } from '../../api/contract.js';
import { usePolled } from '../../api/polled.js';
import { seconds } from '../../format.js';
import { ServerChip } from '../../parts/chip.js';
import { Page } from '../../parts/page.js';
import { Loaded } from '../../parts/states.js';
import { rememberWorkers } from '../../state/workers.js';
import { Charts } from './charts.js';
import { Hero } from './hero.js';
import { Pools } from './pools.js';
import { Workers } from './workers.js';

const INTERVAL_MS = 2000;

export function OverviewPage() {
  const polled = usePolled<Overview>('overview', INTERVAL_MS, signal => read('overview', {}, signal));
  const { data } = polled;
  useEffect(() => {
    if (data) rememberWorkers(data.workers);
  }, [data]);

  return (
    <Page
      title="Overview"
      lead={data && <ServerLine overview={data} />}
      above={data && <ServerChip state={data.server.state} />}
    >
      <Loaded polled={polled} rows={8}>
        {overview => (
          <>
            <Hero overview={overview} />
            <Charts history={overview.history} />
            <Pools pools={overview.pools} />
            <Workers workers={overview.workers} refresh={polled.refresh} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function ServerLine({ overview: { server, now_micros } }: { overview: Overview }) {
  const parts = [
    `version ${server.version}`,
    `up ${seconds(Math.floor((now_micros - server.started_micros) / 1e6))}`,
    `shard ${server.shard}, ${server.is_owner ? 'owner' : 'not the owner'}`,
    server.tls ? 'TLS' : 'without TLS',
    server.database === 'file' ? 'database in a file' : 'database server',
    server.address,
  ];
  return (
    <span class="server-line">
      {parts.map(part => (
        <bdi key={part}>{part}</bdi>
      ))}
    </span>
  );
}
