// Shows a tree of Markdown as elements.

import type { ComponentChildren } from 'preact';

import { targetOf, type Block, type Inline } from '../figures/markdown.js';
import { addressOf } from '../state/router.js';

/** The page around a document has its heading, so the document's own first heading is left out. */
export function Document({ blocks }: { blocks: readonly Block[] }) {
  const shown = blocks[0]?.kind === 'heading' && blocks[0].level === 1 ? blocks.slice(1) : blocks;
  return <div class="document">{shown.map(block)}</div>;
}

function block(block: Block, key: number) {
  switch (block.kind) {
    case 'heading':
      return block.level <= 2 ? (
        <h2 key={key}>{inlines(block.content)}</h2>
      ) : (
        <h3 key={key}>{inlines(block.content)}</h3>
      );
    case 'paragraph':
      return <p key={key}>{inlines(block.content)}</p>;
    case 'code':
      return (
        <pre key={key} tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      );
    case 'list': {
      const items = block.items.map((item, index) => <li key={index}>{inlines(item)}</li>);
      return block.isOrdered ? <ol key={key}>{items}</ol> : <ul key={key}>{items}</ul>;
    }
  }
}

function inlines(content: readonly Inline[]): ComponentChildren {
  return content.map((inline, key) => {
    switch (inline.kind) {
      case 'text':
        return inline.text;
      case 'code':
        return <code key={key}>{inline.text}</code>;
      case 'strong':
        return <strong key={key}>{inlines(inline.content)}</strong>;
      case 'emphasis':
        return <em key={key}>{inlines(inline.content)}</em>;
      case 'link':
        return <Link key={key} target={inline.target} content={inline.content} />;
    }
  });
}

function Link({ target, content }: { target: string; content: Inline[] }) {
  const to = targetOf(target);
  const shown = inlines(content);
  if (to?.kind === 'reason') return <a href={addressOf('error', { reason: to.reason })}>{shown}</a>;
  if (to?.kind === 'web') {
    return (
      <a href={to.address} target="_blank" rel="noopener noreferrer">
        {shown}
      </a>
    );
  }
  // The other documents are not part of the console: name the file.
  if (to?.kind === 'document') return <span title={`See ${to.path} of the documentation`}>{shown}</span>;
  return <>{shown}</>;
}
