// The frame of a page: its heading, a line below it, and its content in cards.

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

interface PageProps {
  title: ComponentChildren;
  lead?: ComponentChildren;
  /** Stands above the heading: the way back, or a state. */
  above?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

export function Page({ title, lead, above, actions, children }: PageProps) {
  return (
    <div class="page">
      <header class="page-head">
        <div class="page-titles">
          {above && <div class="page-above">{above}</div>}
          <h1>{title}</h1>
          {lead && <p class="page-lead">{lead}</p>}
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface CardProps {
  title: string;
  note?: ComponentChildren;
  children: ComponentChildren;
}

export function Card({ title, note, children }: CardProps) {
  const id = useId();
  return (
    <section class="card" aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{title}</h2>
        {note && <p class="card-note">{note}</p>}
      </header>
      {children}
    </section>
  );
}

/** Pairs of a label and a value. Wide ones have room for long names. */
export function Facts({ facts, isWide = false }: { facts: [string, ComponentChildren][]; isWide?: boolean }) {
  return (
    <dl class={isWide ? 'facts facts-wide' : 'facts'}>
      {facts.map(([label, value]) => (
        <div key={label} class="fact">
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A bar that is filled to a share. The text beside it says the same. */
export function Meter({ share, colour = '--accent' }: { share: number; colour?: string }) {
  const shown = Number.isFinite(share) ? Math.min(Math.max(share, 0), 1) : 0;
  // A small share is still more than none.
  const width = shown > 0 ? `max(${shown * 100}%, 3px)` : '0';
  return (
    <span class="meter" aria-hidden="true">
      <i class="meter-fill" style={{ width, background: `var(${colour})` }} />
    </span>
  );
}
