// Elements of HTML and SVG as text.

export type Attributes = Record<string, string | number | undefined>;

/** An element. Numbers are rounded to a hundredth, and absent attributes are left out. */
export function tag(name: string, attributes: Attributes = {}, ...children: string[]): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  const written = given.map(
    ([key, value]) => ` ${key}="${typeof value === 'number' ? rounded(value) : escaped(`${value}`)}"`,
  );
  return `<${name}${written.join('')}>${children.join('')}</${name}>`;
}

/** The value of a `style` attribute. */
export function style(properties: Record<string, string>): string {
  return Object.entries(properties)
    .map(([name, value]) => `${name}:${value}`)
    .join(';');
}

/** A path of straight lines through points. */
export function path(points: [number, number][], closed = false): string {
  return `M${points.map(([x, y]) => `${rounded(x)},${rounded(y)}`).join('L')}${closed ? 'Z' : ''}`;
}

export function svg(width: number, height: number, ...children: string[]): string {
  return tag('svg', { width, height, viewBox: `0 0 ${rounded(width)} ${rounded(height)}` }, ...children);
}

/** A gradient from top to bottom between two opacities of a colour. */
export function gradient(id: string, colour: string, top: number, bottom = 0): string {
  const stop = (offset: number, opacity: number) =>
    tag('stop', { offset, 'stop-color': colour, 'stop-opacity': opacity });
  return tag('linearGradient', { id, x1: 0, x2: 0, y1: 0, y2: 1 }, stop(0, top), stop(1, bottom));
}

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function rounded(value: number): string {
  return `${Math.round(value * 100) / 100}`;
}
