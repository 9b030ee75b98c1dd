/** An image or a document in a message. */

import { useSignal } from "@preact/signals";
import type { ContentBlock } from "@twostep/client";
import { useEffect } from "preact/hooks";
import { contentUrl, save } from "../service/files";
import { act } from "../state/access";
import { openId } from "../state/route";
import { connection } from "../state/thread";
import { t } from "../text/text";

/** The types of images that a message can contain. None of them can contain a script. */
const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"];

type Source = Partial<Record<"type" | "file_id" | "media_type" | "data", string>>;

export function FileBlock({ block }: { block: ContentBlock }) {
  const source = (block["source"] ?? {}) as Source;
  const title = typeof block["title"] === "string" ? block["title"] : undefined;
  const { file_id: fileId, media_type: type = "", data } = source;
  if (block.type === "image" && fileId !== undefined) {
    return <Picture sessionId={openId.value} fileId={fileId} name={t("image")} />;
  }
  if (block.type === "image" && imageTypes.includes(type) && data !== undefined) {
    return <img class="picture" src={`data:${type};base64,${data}`} alt={t("image")} />;
  }
  const name = title ?? t("attachment", block.type);
  if (fileId === undefined) return <p class="attachment">{name}</p>;
  const download = () => act(async () => save(await contentUrl(openId.value, fileId), title ?? fileId));
  return (
    <p class="attachment">
      <button type="button" class="quiet" title={t("download", name)} onClick={() => void download()}>
        <span dir="auto">{name}</span> ↓
      </button>
    </p>
  );
}

interface PictureProps {
  sessionId: string | undefined;
  fileId: string;
  name: string;
  /** True if the name is next to the image. */
  isDecoration?: boolean;
}

/** An uploaded image; a link to the whole one if it is no decoration. */
export function Picture({ sessionId, fileId, name, isDecoration = false }: PictureProps) {
  const url = useSignal<string | undefined>(undefined);
  const isOnline = connection.value.state === "open";
  useEffect(() => {
    let isCurrent = true;
    // What a lost connection has interrupted is read again after it.
    if (url.value === undefined)
      void contentUrl(sessionId, fileId).then(
        (found) => isCurrent && (url.value = found),
        () => undefined,
      );
    return () => {
      isCurrent = false;
    };
  }, [sessionId, fileId, isOnline]);
  if (isDecoration) return url.value === undefined ? null : <img src={url.value} alt="" />;
  if (url.value === undefined) return <p class="attachment">{t("attachment", name)}</p>;
  return (
    <a class="picture" href={url.value} target="_blank" rel="noopener">
      <img src={url.value} alt={name} />
    </a>
  );
}
