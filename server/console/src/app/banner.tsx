// Says that the server is gone, and how old the data are.

import { clock } from '../format.js';
import { connection } from '../state/connection.js';

export function Banner() {
  const { isGone, answeredMicros } = connection.value;
  return (
    <div class="banner-place" role="status">
      {isGone && (
        <p class="banner">
          <i class="banner-dot" />
          The server does not answer. The page shows what was known at {clock(answeredMicros)}, and tries again.
        </p>
      )}
    </div>
  );
}
