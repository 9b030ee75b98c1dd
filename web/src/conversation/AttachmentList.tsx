/** The files of a message that is not sent yet, with the progress of their uploads. */

import { t } from "../text/text";
import { type Attachments, isImage } from "./attachments";
import { Picture } from "./FileBlock";

export function AttachmentList({ files }: { files: Attachments }) {
  if (files.list.value.length === 0) return null;
  return (
    <ul class="files">
      {files.list.value.map(({ key, name, share, stored, error }) => (
        <li key={key} class={error === undefined ? "" : "refused"}>
          {stored !== undefined && isImage(stored) && (
            <Picture sessionId={files.sessionId} fileId={stored.id} name={name} isDecoration />
          )}
          <span dir="auto">{name}</span>
          {stored === undefined && error === undefined && (
            <progress max={1} value={share} aria-label={t("uploading", name)} />
          )}
          {error !== undefined && (
            <>
              <span class="error-text" role="alert">
                {error}
              </span>
              <button type="button" class="quiet" onClick={() => files.retry(key)}>
                {t("retry")}
              </button>
            </>
          )}
          <button type="button" class="quiet" aria-label={t("remove", name)} onClick={() => files.remove(key)}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Moves the focus to a file that the service has not stored. */
export function focusRefused(): void {
  document.querySelector<HTMLElement>(".files .refused button:last-child")?.focus();
}
