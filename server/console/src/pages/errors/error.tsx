// The page of one reason: what happened, and what to do.

import { useEffect, useState } from 'preact/hooks';

import type { Block } from '../../figures/markdown.js';
import { Document } from '../../parts/document.js';
import { Icon } from '../../parts/icons.js';
import { Name } from '../../parts/name.js';
import { Page } from '../../parts/page.js';
import { Empty, Loading } from '../../parts/states.js';
import { addressOf } from '../../state/router.js';
import { readPage } from './pages.js';

export function ErrorPage({ reason }: { reason: string }) {
  const [blocks, setBlocks] = useState<Block[] | null | 'loading'>('loading');
  useEffect(() => {
    let isLeft = false;
    setBlocks('loading');
    readPage(reason)
      // A file that cannot be read looks like a reason without a page.
      .catch(() => null)
      .then(blocks => {
        if (!isLeft) setBlocks(blocks);
      });
    return () => {
      isLeft = true;
    };
  }, [reason]);

  return (
    <Page
      title={<Name text={reason} isCode />}
      above={
        <a class="way-back" href={addressOf('errors')}>
          <Icon name="back" />
          Errors
        </a>
      }
    >
      <section class="card card-text" aria-label="Explanation">
        {blocks === 'loading' && <Loading rows={6} />}
        {blocks === null && <Empty title="No page for this reason">The server may be newer than this console.</Empty>}
        {Array.isArray(blocks) && <Document blocks={blocks} />}
      </section>
    </Page>
  );
}
