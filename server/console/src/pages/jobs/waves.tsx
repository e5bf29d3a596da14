// The waves in which a job was computed. A column is as high as the wave was wide. Its full part is
// this job's share, and its colour says why the wave was cut.

import type { Latency, Wave } from '../../api/contract.js';
import { cutColour, cutText } from '../../figures/cuts.js';
import { count, nanos, share, words } from '../../format.js';
import { Card } from '../../parts/page.js';
import { Empty } from '../../parts/states.js';
import { Table, type Column } from '../../parts/table.js';

export function Waves({ latency }: { latency: Latency }) {
  const { waves, wave_count, mean_wave_fill, companion_waves } = latency;
  const note = [
    `${count(wave_count)} waves, filled to ${share(mean_wave_fill)}`,
    companion_waves > 0 ? `${count(companion_waves)} under the companion set` : '',
    waves.length < wave_count ? `the first ${count(waves.length)} are shown` : '',
  ];
  if (waves.length === 0) {
    return (
      <Card title="Waves">
        <Empty title="No wave">A job without bootstraps takes part in no wave.</Empty>
      </Card>
    );
  }
  return (
    <Card title="Waves" note={note.filter(Boolean).join('; ')}>
      <ul class="legend">
        {latency.cuts.map(({ cut, waves }) => (
          <li key={cut} class="legend-item" title={cutText(cut)}>
            <i class="swatch" style={{ background: `var(${cutColour(cut)})` }} />
            <span class="legend-label">{words(cut)}</span>
            <span class="legend-value">{count(waves)}</span>
          </li>
        ))}
      </ul>
      <Strip waves={waves} />
      <details class="details">
        <summary>The waves as a table</summary>
        <Table
          caption="Waves"
          columns={COLUMNS}
          rows={waves.map((wave, index) => ({ ...wave, index }))}
          keyOf={({ index }) => `${index}`}
        />
      </details>
    </Card>
  );
}

function Strip({ waves }: { waves: Wave[] }) {
  const widest = Math.max(1, ...waves.map(({ width }) => width));
  const own = waves.reduce((sum, wave) => sum + wave.own_width, 0);
  const all = waves.reduce((sum, wave) => sum + wave.width, 0);
  const summary = `${waves.length} waves with ${count(all)} bootstraps, of which ${count(own)} are this job's. The widest has ${count(widest)}.`;
  return (
    <div class="strip-place">
      <span class="strip-top" aria-hidden="true">
        {count(widest)} wide
      </span>
      <div class="strip" role="img" aria-label={summary}>
        {waves.map((wave, index) => (
          <span
            key={index}
            class="wave"
            title={`Wave ${index + 1}: ${wave.own_width} of ${wave.width} bootstraps, ${nanos(wave.compute_nanos)}, cut: ${words(wave.cut)}`}
            style={{ height: `${(wave.width / widest) * 100}%`, color: `var(${cutColour(wave.cut)})` }}
          >
            <i
              class="wave-own"
              style={{ height: `${wave.width > 0 ? Math.min(wave.own_width / wave.width, 1) * 100 : 0}%` }}
            />
          </span>
        ))}
      </div>
      <p class="strip-note">Full: this job. Pale: jobs under the same key that shared the wave.</p>
    </div>
  );
}

type NumberedWave = Wave & { index: number };

const COLUMNS: Column<NumberedWave>[] = [
  { label: 'Wave', isMain: true, cell: ({ index }) => `Wave ${index + 1}` },
  { label: 'Own width', isNumber: true, cell: ({ own_width }) => count(own_width) },
  { label: 'Width', isNumber: true, cell: ({ width }) => count(width) },
  { label: 'Compute time', isNumber: true, cell: ({ compute_nanos }) => nanos(compute_nanos) },
  { label: 'Cut', cell: ({ cut }) => words(cut) },
];
