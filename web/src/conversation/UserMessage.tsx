/** A message of the user, which can be edited as a fork. */

import type { ContentBlock, UserItem } from "@twostep/client";
import { useState } from "preact/hooks";
import { client, curl } from "../service/api";
import { copyText } from "../shell/copy";
import { act } from "../state/access";
import { post } from "../state/outbox";
import { go, openId } from "../state/route";
import { put } from "../state/sessions";
import { exactTime, moment, t } from "../text/text";
import { origins } from "../state/thread";

export const textOf = (content: ContentBlock[]) =>
  content
    .map((block) => block.text ?? "")
    .join("\n")
    .trim();

export function UserMessage({ item }: { item: UserItem }) {
  const [isEditing, setEditing] = useState(false);
  const text = textOf(item.content);
  const time = origins.get(item.id)?.at;
  if (isEditing) return <Editor id={item.id} text={text} close={() => setEditing(false)} />;
  return (
    <article class="user" aria-label={t("you")}>
      <Content content={item.content} />
      <footer>
        {time !== undefined && (
          <time dateTime={time} title={exactTime(time)}>
            {moment(time)}
          </time>
        )}
        <button type="button" class="quiet" onClick={() => setEditing(true)}>
          {t("edit")}
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() => void copyText(curl(`/sessions/${openId.value}/messages`, { content: text }))}
        >
          {t("curl")}
        </button>
      </footer>
    </article>
  );
}

export function Content({ content }: { content: ContentBlock[] }) {
  return (
    <>
      {content.map((block, index) => {
        if (block.type === "text")
          return (
            <p key={index} dir="auto" class="plain">
              {block.text}
            </p>
          );
        return (
          <p key={index} class="attachment">
            {t("attachment", block.type)}
          </p>
        );
      })}
    </>
  );
}

/** Forks the session before a message and posts another one there. */
export async function forkWith(before: string, text: string): Promise<void> {
  const source = openId.value;
  if (source === undefined) return;
  await act(async () => {
    const fork = await client.fork(source, { before });
    put(fork);
    go(fork.id);
    await post(fork.id, text);
  });
}

function Editor({ id, text, close }: { id: string; text: string; close: () => void }) {
  const [value, setValue] = useState(text);
  return (
    <form
      class="user editor"
      onSubmit={(event) => {
        event.preventDefault();
        void forkWith(id, value);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      }}
    >
      <label>
        {t("edit")}
        <textarea
          rows={4}
          dir="auto"
          value={value}
          autoFocus
          ref={(area) => {
            if (area !== null && document.activeElement !== area) area.focus();
          }}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
      </label>
      <p class="note">{t("editHint")}</p>
      <div class="row">
        <button type="submit" class="primary" disabled={value.trim() === ""}>
          {t("sendFork")}
        </button>
        <button type="button" onClick={close}>
          {t("cancel")}
        </button>
      </div>
    </form>
  );
}
