/** The list of a conversation. Only the chunks near the visible part are in the document. */

import { useComputed } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { openId } from "../state/route";
import { conversation, isLoaded, origins } from "../state/thread";
import { t } from "../text/text";
import { type Chunk, Chunks, guessHeight, inOrder } from "./entries";
import { EntryView } from "./EntryView";

/** The distance from the end, in pixels, within which the list follows new text. */
const near = 80;

export function Log() {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isAtEnd, setAtEnd] = useState(true);
  const chunks = useMemo(() => new Chunks(), [openId.value]);
  const shown = useComputed(() => chunks.of(visibleItems(), origins)).value;
  const vnodes = useRef(new WeakMap<Chunk, VNode>()).current;

  const toEnd = () => {
    const element = scroller.current;
    if (element !== null) element.scrollTop = element.scrollHeight;
  };
  useEffect(() => {
    follows.current = true;
    setAtEnd(true);
  }, [openId.value]);
  useEffect(() => {
    const resized = new ResizeObserver(() => {
      if (follows.current) toEnd();
    });
    if (content.current !== null) resized.observe(content.current);
    if (scroller.current !== null) resized.observe(scroller.current);
    return () => resized.disconnect();
  }, []);
  const onScroll = () => {
    const element = scroller.current;
    if (element === null) return;
    follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < near;
    setAtEnd(follows.current);
  };

  return (
    <div class="log-frame">
      <div
        class="log"
        ref={scroller}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={t("conversation")}
        aria-busy={!isLoaded.value}
        id="log"
      >
        <div class="log-content" ref={content}>
          {shown.map((chunk, index) => {
            let vnode = vnodes.get(chunk);
            if (vnode === undefined) {
              vnode = <ChunkView key={chunk.id} chunk={chunk} startsVisible={index >= shown.length - 2} />;
              vnodes.set(chunk, vnode);
            }
            return vnode;
          })}
        </div>
      </div>
      {!isAtEnd && (
        <button type="button" class="to-end" onClick={toEnd} aria-label={t("latest")} title={t("latest")}>
          ↓
        </button>
      )}
    </div>
  );
}

/** The items without messages that wait behind the active run: these are shown next to the input. */
function visibleItems() {
  const { items, queuedRunIds, activeRunId } = conversation.value;
  const pending = [activeRunId, ...queuedRunIds];
  if (queuedRunIds.length === 0 || activeRunId === undefined) return inOrder(items, pending);
  const begun = items.filter((item) => item.kind !== "user" || item.runId === undefined || !queuedRunIds.includes(item.runId));
  return inOrder(begun, pending);
}

interface ChunkProps {
  chunk: Chunk;
  startsVisible: boolean;
}

function ChunkView({ chunk, startsVisible }: ChunkProps) {
  const element = useRef<HTMLDivElement>(null);
  const height = useRef<number | undefined>(undefined);
  const [isNear, setNear] = useState(startsVisible);
  useLayoutEffect(() => {
    const observed = element.current;
    if (observed === null) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry === undefined) return;
        if (!entry.isIntersecting) height.current = entry.boundingClientRect.height;
        setNear(entry.isIntersecting);
      },
      { root: observed.closest(".log"), rootMargin: "1200px 0px" },
    );
    observer.observe(observed);
    return () => observer.disconnect();
  }, []);
  const guess = () => chunk.entries.reduce((sum, entry) => sum + guessHeight(entry), 0);
  const style = isNear ? {} : { height: `${height.current ?? guess()}px` };
  return (
    <div ref={element} style={style} class="chunk">
      {isNear && chunk.entries.map((entry) => <EntryView key={entry.id} entry={entry} />)}
    </div>
  );
}
