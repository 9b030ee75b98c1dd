/** A message of the user, which can be edited as a fork. */

import type { ContentBlock, CreateMessage, UserItem } from "@twostep/client";
import { useState } from "preact/hooks";
import { client, curl } from "../service/api";
import { copyText } from "../shell/copy";
import { act } from "../state/access";
import { post } from "../state/outbox";
import { go, openId } from "../state/route";
import { put } from "../state/sessions";
import { exactTime, moment, t } from "../text/text";
import { origins } from "../state/thread";
import { FileBlock } from "./FileBlock";
import { withReferences } from "./references";

const textOf = (content: ContentBlock[]) =>
  content
    .map((block) => block.text ?? "")
    .join("\n")
    .trim();

/** A message in one line: its text, or the names of its files. */
export function summaryOf(content: ContentBlock[]): string {
  const blocks = withReferences(content);
  return textOf(blocks) || blocks.map(({ type, title }) => String(title ?? t("attachment", type))).join(", ");
}

/** The content of a message with files and a text. */
export function contentOf(text: string, files: ContentBlock[]): CreateMessage["content"] {
  if (files.length === 0) return text;
  return (text === "" ? files : [...files, { type: "text", text }]) as CreateMessage["content"];
}

export function UserMessage({ item }: { item: UserItem }) {
  const [isEditing, setEditing] = useState(false);
  const content = withReferences(item.content);
  const text = textOf(content);
  const files = content.filter((block) => block.type !== "text");
  const time = origins.get(item.id)?.at;
  if (isEditing) return <Editor id={item.id} text={text} files={files} close={() => setEditing(false)} />;
  return (
    <article class="user" aria-label={t("you")}>
      <Content content={content} />
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
          onClick={() => void copyText(curl(`/sessions/${openId.value}/messages`, { content: contentOf(text, files) }))}
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
        return <FileBlock key={index} block={block} />;
      })}
    </>
  );
}

/** Forks the session before a message and posts another one there. */
async function forkWith(before: string, text: string, files: ContentBlock[]): Promise<void> {
  const source = openId.value;
  if (source === undefined) return;
  await act(async () => {
    const fork = await client.fork(source, { before });
    put(fork);
    go(fork.id);
    await post(fork.id, contentOf(text, files));
  });
}

interface EditorProps {
  id: string;
  text: string;
  files: ContentBlock[];
  close: () => void;
}

function Editor({ id, text, files, close }: EditorProps) {
  const [value, setValue] = useState(text);
  return (
    <form
      class="user editor"
      onSubmit={(event) => {
        event.preventDefault();
        void forkWith(id, value, files);
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
      <Content content={files} />
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
