// The eleven stages of a job as bars, each begun where the one before ended.

import type { Latency } from '../../api/contract.js';
import { GROUP_TEXTS, stageMeaning, type StageGroup } from '../../figures/stages.js';
import { bars, ticks } from '../../figures/waterfall.js';
import { nanos, plain, share, words } from '../../format.js';
import { Card } from '../../parts/page.js';

const TICKS_MAX = 6;
const GROUPS: StageGroup[] = ['waiting', 'loading', 'computing', 'storing'];

export function Waterfall({ latency }: { latency: Latency }) {
  const { wall_nanos: wall } = latency;
  const shown = bars(latency.stages, wall);
  const lines = ticks(wall, TICKS_MAX);
  return (
    <Card
      title="Where the time went"
      note={`${nanos(wall)} of wall time. The stages are sums over all waves, in order.`}
    >
      <ul class="legend">
        {GROUPS.map(group => (
          <li key={group} class="legend-item">
            <i class={`swatch group-${group}`} />
            <span class="legend-label">{GROUP_TEXTS[group]}</span>
            <span class="legend-value">{share(groupShare(latency, group))}</span>
          </li>
        ))}
      </ul>
      <div class="waterfall">
        <div class="waterfall-lines" aria-hidden="true">
          {lines.map(line => (
            <span key={line} class="waterfall-line" style={{ left: `${wall > 0 ? (line / wall) * 100 : 0}%` }}>
              <span>{plain(nanos(line))}</span>
            </span>
          ))}
        </div>
        <ol class="waterfall-rows">
          {shown.map((bar, index) => {
            const { group, text } = stageMeaning(bar.name);
            return (
              <li key={bar.name} class={bar.nanos === 0 ? 'stage stage-none' : 'stage'} title={text}>
                <span class="stage-name">{words(bar.name)}</span>
                <span class="stage-track" aria-hidden="true">
                  <i
                    class={`stage-bar group-${group} stage-${bar.name.replaceAll('_', '-')}`}
                    style={{
                      left: `${bar.start * 100}%`,
                      width: `${bar.share * 100}%`,
                      animationDelay: `${index * 30}ms`,
                    }}
                  />
                </span>
                <span class="stage-time">{nanos(bar.nanos)}</span>
                <span class="stage-share">{share(bar.share)}</span>
              </li>
            );
          })}
        </ol>
      </div>
    </Card>
  );
}

function groupShare({ stages, wall_nanos }: Latency, group: StageGroup): number {
  const sum = stages
    .filter(({ name }) => stageMeaning(name).group === group)
    .reduce((sum, { nanos }) => sum + nanos, 0);
  return wall_nanos > 0 ? sum / wall_nanos : 0;
}
