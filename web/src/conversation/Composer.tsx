/** The input: text, files by drop, paste and dialog, send and stop. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { client } from "../service/api";
import { hasTouch } from "../shell/touch";
import { act } from "../state/access";
import { post } from "../state/outbox";
import { ofTab } from "../state/stored";
import { conversation, session } from "../state/thread";
import { t } from "../text/text";
import { AttachmentList, focusRefused } from "./AttachmentList";
import { attachmentsOf } from "./attachments";
import { contentOf } from "./UserMessage";

interface Props {
  /** Returns the session to post to; the first message creates it. */
  sessionId: (text: string) => Promise<string | undefined>;
  /** The name of the draft in this tab. */
  draft: string;
  /** A text that replaces the draft. */
  proposal?: string;
}

export function Composer({ sessionId, draft, proposal }: Props) {
  const text = useSignal(ofTab.get(`draft.${draft}`) ?? "");
  const files = attachmentsOf(draft);
  const area = useRef<HTMLTextAreaElement>(null);
  const isBusy = useSignal(false);

  useEffect(() => {
    text.value = ofTab.get(`draft.${draft}`) ?? "";
    return dropped((given) => files.add(given));
  }, [draft]);
  useEffect(() => {
    if (proposal === undefined) return;
    write(proposal);
    area.current?.focus();
  }, [proposal]);

  const write = (value: string) => {
    text.value = value;
    ofTab.set(`draft.${draft}`, value);
  };
  const submit = async () => {
    const written = text.value.trim();
    if ((written === "" && files.list.value.length === 0) || isBusy.value) return;
    isBusy.value = true;
    const isComplete = await files.settle();
    const id = isComplete ? await act(() => sessionId(written)) : undefined;
    isBusy.value = false;
    if (!isComplete) focusRefused();
    if (id === undefined) return;
    write("");
    await post(id, contentOf(written, files.take()));
  };
  const { status } = conversation.value;
  const isRunning = session.value !== undefined && status !== "idle";
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <AttachmentList files={files} />
      <textarea
        id="message"
        ref={area}
        rows={1}
        dir="auto"
        value={text}
        aria-label={t("message")}
        placeholder={t("message")}
        aria-describedby="message-hint"
        onInput={(event) => write(event.currentTarget.value)}
        onPaste={(event) => {
          const pasted = event.clipboardData?.files;
          if (pasted === undefined || pasted.length === 0) return;
          event.preventDefault();
          files.add(pasted);
        }}
        onKeyDown={(event) => {
          // The keyboard on a screen has no Shift+Enter.
          if (event.key !== "Enter" || event.shiftKey || event.isComposing || hasTouch()) return;
          event.preventDefault();
          void submit();
        }}
      />
      <div class="row">
        <label class="button quiet">
          {t("attach")}
          <input
            type="file"
            multiple
            class="visually-hidden"
            onChange={(event) => {
              files.add([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
        </label>
        <span class="note hint" id="message-hint">
          {t("messageHint")}
        </span>
        {isRunning && (
          <button type="button" class="stop" onClick={stop}>
            {t("stop")}
          </button>
        )}
        <button type="submit" class="primary" disabled={isBusy.value}>
          {t("send")}
        </button>
      </div>
    </form>
  );
}

/** Takes files that are dropped anywhere on the page, which the browser would open otherwise. */
function dropped(add: (files: FileList) => void): () => void {
  const abort = new AbortController();
  const take = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    if (event.type === "drop") add(event.dataTransfer.files);
  };
  addEventListener("dragover", take, { signal: abort.signal });
  addEventListener("drop", take, { signal: abort.signal });
  return () => abort.abort();
}

/** Stops the active run and the queued ones. */
export function stop(): void {
  const id = session.peek()?.id;
  if (id !== undefined) void act(() => client.stop(id));
}
