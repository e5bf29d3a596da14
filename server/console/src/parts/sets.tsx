// Parameter sets. Their names are long, so a list shows the first one and the number of others.

import { shortSet } from '../figures/sets.js';
import { Name } from './name.js';

export function SetNames({ names }: { names: readonly string[] }) {
  const [first, ...others] = names;
  if (first === undefined) return <span class="text-faint">–</span>;
  return (
    <span class="sets" title={names.join('\n').slice(0, 1000)}>
      <Name text={first} short={shortSet(first)} isCode />
      {others.length > 0 && <span class="sets-more"> +{others.length}</span>}
    </span>
  );
}
