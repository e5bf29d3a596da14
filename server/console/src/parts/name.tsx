// Names that others chose. A name may be long or run from right to left, and must not change what
// stands around it.

interface Props {
  text: string;
  /** The text that is shown, if it is shorter than the whole, which is then the tooltip. */
  short?: string;
  isCode?: boolean;
}

/** Characters in tooltips: a longer name fills the screen. */
const TOOLTIP_MAX = 300;

export function Name({ text, short = text, isCode = false }: Props) {
  return (
    <bdi class={isCode ? 'name name-code' : 'name'} title={text.slice(0, TOOLTIP_MAX)}>
      {short === '' ? '–' : short}
    </bdi>
  );
}
