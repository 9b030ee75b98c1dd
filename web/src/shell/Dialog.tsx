/** A modal dialog. The browser keeps the focus inside and returns it afterwards. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../text/text";

interface Props {
  title: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, close, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog ref={element} aria-labelledby={id} onClose={close}>
      <header class="row">
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" aria-label={t("close")} onClick={close}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
