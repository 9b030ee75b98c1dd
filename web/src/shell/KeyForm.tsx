/** The entry of a key or browser token, which this tab keeps. The page stays as it is meanwhile. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isRefused, key, useKey } from "../state/access";
import { t } from "../text/text";

export function KeyForm() {
  const element = useRef<HTMLDialogElement>(null);
  const value = useSignal("");
  useEffect(() => {
    const dialog = element.current;
    if (isRefused.value && dialog?.open === false) dialog.showModal();
    if (!isRefused.value && dialog?.open) dialog.close();
  }, [isRefused.value]);
  return (
    <dialog ref={element} aria-labelledby="key-title" onCancel={(event) => event.preventDefault()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const entered = value.value.trim();
          value.value = "";
          if (entered !== "") useKey(entered);
        }}
      >
        <h2 id="key-title">{t("keyTitle")}</h2>
        {key.value !== undefined && (
          <p class="error-text" role="alert">
            {t("keyRefused")}
          </p>
        )}
        <label>
          {t("keyLabel")}
          <input
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={value}
            aria-describedby="key-hint"
            onInput={(event) => (value.value = event.currentTarget.value)}
          />
        </label>
        <p class="note" id="key-hint">
          {t("keyHint")}
        </p>
        <button type="submit" class="primary">
          {t("keyUse")}
        </button>
      </form>
    </dialog>
  );
}
