// Reads the small part of Markdown that docs/errors uses: headings, paragraphs, lists, code blocks,
// inline code, emphasis and links. The result is a tree. parts/document.tsx shows it as elements, so
// no text ever becomes HTML.

export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong' | 'emphasis'; content: Inline[] }
  | { kind: 'link'; target: string; content: Inline[] };

export type Block =
  | { kind: 'heading'; level: number; content: Inline[] }
  | { kind: 'paragraph'; content: Inline[] }
  | { kind: 'list'; isOrdered: boolean; items: Inline[][] }
  | { kind: 'code'; text: string };

const FENCE = /^```/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(?:([-*])|\d+\.)\s+(.*)$/;

export function parseMarkdown(source: string): Block[] {
  const lines = source.replaceAll('\r\n', '\n').split('\n');
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? '';
    if (line.trim() === '') {
      at += 1;
      continue;
    }
    const heading = HEADING.exec(line);
    if (FENCE.test(line)) {
      at += 1;
      const begin = at;
      while (at < lines.length && !FENCE.test(lines[at] ?? '')) at += 1;
      blocks.push({ kind: 'code', text: lines.slice(begin, at).join('\n') });
      at += 1;
    } else if (heading) {
      blocks.push({ kind: 'heading', level: heading[1]?.length ?? 1, content: parseInline(heading[2] ?? '') });
      at += 1;
    } else if (ITEM.test(line)) {
      const isOrdered = ITEM.exec(line)?.[1] === undefined;
      const items: string[] = [];
      for (; at < lines.length && (lines[at] ?? '').trim() !== '' && !FENCE.test(lines[at] ?? ''); at += 1) {
        const text = lines[at] ?? '';
        const item = ITEM.exec(text);
        if (item) items.push(item[2] ?? '');
        // A line that begins no item continues the last one.
        else items.push(`${items.pop() ?? ''} ${text.trim()}`);
      }
      blocks.push({ kind: 'list', isOrdered, items: items.map(parseInline) });
    } else {
      const begin = at;
      while (at < lines.length && !beginsBlock(lines[at] ?? '', at > begin)) at += 1;
      blocks.push({ kind: 'paragraph', content: parseInline(lines.slice(begin, at).join(' ')) });
    }
  }
  return blocks;
}

/** Whether a line ends the paragraph before it. The first line of a paragraph never does. */
function beginsBlock(line: string, isInside: boolean): boolean {
  return isInside && (line.trim() === '' || FENCE.test(line) || HEADING.test(line) || ITEM.test(line));
}

const CODE = /^`([^`]+)`/;
const LINK = /^\[([^\]]+)\]\(([^()\s]+)\)/;
const STRONG = /^\*\*([^*]+)\*\*/;
const EMPHASIS = /^\*([^*\s][^*]*)\*/;

export function parseInline(source: string): Inline[] {
  const out: Inline[] = [];
  let text = '';
  const flush = () => {
    if (text !== '') out.push({ kind: 'text', text });
    text = '';
  };
  let rest = source;
  while (rest !== '') {
    const [whole, inline] = inlineAt(rest);
    if (inline) {
      flush();
      out.push(inline);
    } else {
      text += whole;
    }
    rest = rest.slice(whole.length);
  }
  flush();
  return out;
}

/** The inline at the start of a text with the part of the text that it takes, or one piece of plain text. */
function inlineAt(text: string): [string, Inline | null] {
  const code = CODE.exec(text);
  if (code) return [code[0], { kind: 'code', text: code[1] ?? '' }];
  const link = LINK.exec(text);
  if (link) return [link[0], { kind: 'link', target: link[2] ?? '', content: parseInline(link[1] ?? '') }];
  const strong = STRONG.exec(text);
  if (strong) return [strong[0], { kind: 'strong', content: parseInline(strong[1] ?? '') }];
  const emphasis = EMPHASIS.exec(text);
  if (emphasis) return [emphasis[0], { kind: 'emphasis', content: parseInline(emphasis[1] ?? '') }];
  // Nothing special can begin before the next mark.
  return [/^.[^`[*]*/s.exec(text)?.[0] ?? text, null];
}

export type Target =
  { kind: 'reason'; reason: string } | { kind: 'web'; address: string } | { kind: 'document'; path: string };

/** Where a link of a page in docs/errors leads. Null if the console must not follow it. */
export function targetOf(link: string): Target | null {
  const page = /^(?:\.\/)?([A-Z][A-Z0-9_]*)\.md(?:#.*)?$/.exec(link);
  if (page) return { kind: 'reason', reason: page[1] ?? '' };
  if (/^https:\/\//.test(link)) return { kind: 'web', address: link };
  const document = /^\.\.\/([a-z0-9_./-]+\.md)(?:#.*)?$/i.exec(link);
  return document ? { kind: 'document', path: `docs/${document[1]}` } : null;
}
