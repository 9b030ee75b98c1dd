/** The input: text, files by drop, paste and dialog, send and stop. */

import { useSignal } from "@preact/signals";
import type { CreateMessage } from "@twostep/client";
import { useEffect, useRef } from "preact/hooks";
import { client } from "../service/api";
import { act, notice } from "../state/access";
import { post } from "../state/outbox";
import { ofTab } from "../state/stored";
import { conversation, session } from "../state/thread";
import { t } from "../text/text";
import { type Attached, attach } from "./attachments";

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
  const files = useSignal<Attached[]>([]);
  const area = useRef<HTMLTextAreaElement>(null);
  const isBusy = useSignal(false);

  useEffect(() => {
    text.value = ofTab.get(`draft.${draft}`) ?? "";
    files.value = [];
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
  const add = async (chosen: Iterable<File>) => {
    const { attached, refused } = await attach(chosen);
    files.value = [...files.value, ...attached];
    if (refused.length > 0) notice.value = { text: t("notAttachable", refused.join(", ")), requestId: undefined };
  };
  const submit = async () => {
    const written = text.value.trim();
    if ((written === "" && files.value.length === 0) || isBusy.value) return;
    isBusy.value = true;
    const id = await act(() => sessionId(written));
    isBusy.value = false;
    if (id === undefined) return;
    const content = contentOf(written, files.value);
    write("");
    files.value = [];
    await post(id, content);
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
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void add(event.dataTransfer?.files ?? []);
      }}
    >
      {files.value.length > 0 && (
        <ul class="files">
          {files.value.map((file) => (
            <li key={file.name}>
              {file.preview !== undefined && <img src={file.preview} alt="" />}
              <span>{file.name}</span>
              <button
                type="button"
                class="quiet"
                aria-label={t("remove", file.name)}
                onClick={() => (files.value = files.value.filter((one) => one !== file))}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
      )}
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
          void add(pasted);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
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
              void add([...(event.currentTarget.files ?? [])]);
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

/** Stops the active run and the queued ones. */
export function stop(): void {
  const id = session.peek()?.id;
  if (id !== undefined) void act(() => client.stop(id));
}

function contentOf(text: string, files: Attached[]): CreateMessage["content"] {
  if (files.length === 0) return text;
  const blocks = files.map(({ block }) => block);
  return (text === "" ? blocks : [...blocks, { type: "text", text }]) as CreateMessage["content"];
}
