// A button that asks before it acts. The dialog names what will happen, and shows why the server
// refused.

import type { ComponentChildren } from 'preact';
import { useId, useRef, useState } from 'preact/hooks';

interface Props {
  label: string;
  /** The button's name for screen readers, if the label alone does not say what it acts on. */
  fullLabel?: string;
  title: string;
  confirmLabel: string;
  isDangerous?: boolean;
  children: ComponentChildren;
  act: () => Promise<void>;
}

export function ActionButton({ label, fullLabel, title, confirmLabel, isDangerous = false, children, act }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const [isActing, setActing] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);

  const confirm = async () => {
    setActing(true);
    setFailure(null);
    try {
      await act();
      dialog.current?.close();
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    } finally {
      setActing(false);
    }
  };
  const open = () => {
    setFailure(null);
    dialog.current?.showModal();
  };

  return (
    <>
      <button type="button" class="button button-small" aria-label={fullLabel} onClick={open}>
        {label}
      </button>
      <dialog ref={dialog} class="dialog" aria-labelledby={titleId}>
        <h2 id={titleId}>{title}</h2>
        <div class="dialog-text">{children}</div>
        {failure !== null && (
          <p class="dialog-failure" role="alert">
            <bdi>{failure}</bdi>
          </p>
        )}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Back
          </button>
          <button
            type="button"
            class={isDangerous ? 'button button-bad' : 'button button-main'}
            disabled={isActing}
            onClick={() => void confirm()}
          >
            {confirmLabel}
          </button>
        </div>
      </dialog>
    </>
  );
}
