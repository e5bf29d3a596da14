// Colours of styles/tokens.css for drawing on a canvas, which cannot read custom properties.

let probe: HTMLElement | undefined;

/** The colour of a custom property in the present theme, as `rgb(1, 2, 3)`. */
export function resolveColour(property: string): string {
  probe ??= document.head.appendChild(document.createElement('i'));
  probe.style.color = `var(${property})`;
  return getComputedStyle(probe).color;
}

/** A colour of `resolveColour` that lets `alpha` of the light through: 0 is invisible. */
export function withAlpha(rgb: string, alpha: number): string {
  return rgb.replace('rgb(', 'rgba(').replace(')', `, ${alpha})`);
}
