/** The items of a conversation as the list shows them: parallel calls together, in chunks. */

import type { Item, ToolItem } from "@twostep/client";
import type { Origin } from "../state/thread";

export type Entry = Item | { kind: "calls"; id: string; calls: ToolItem[] };

export interface Chunk {
  id: string;
  entries: Entry[];
}

const chunkSize = 20;

/** Calls of one reply are made together: they have the same message, or follow each other in it. */
function areTogether(one: Item, other: Item, origins: ReadonlyMap<string, Origin>): boolean {
  if (one.kind !== "tool" || other.kind !== "tool" || one.runId !== other.runId) return false;
  const [first, second] = [origins.get(one.id)?.messageId, origins.get(other.id)?.messageId];
  if (first !== undefined && second !== undefined) return first === second;
  return one.result === undefined && other.result === undefined;
}

/**
 * A message that waited in the queue is shown before the answer to it, and not where it was sent; last, if its run
 * is one of `pending`, which have no answer yet. Without such messages the list stays the same object.
 */
export function inOrder(items: readonly Item[], pending: readonly (string | undefined)[]): readonly Item[] {
  const firstAnswers = new Map<string, number>();
  items.forEach(({ kind, runId }, index) => {
    if (kind !== "user" && runId !== undefined && !firstAnswers.has(runId)) firstAnswers.set(runId, index);
  });
  const moved = new Map<number, Item[]>();
  let nextAnswer = items.length;
  for (let index = items.length - 1; index >= 0; index--) {
    const item = items[index] as Item;
    if (item.kind !== "user") {
      nextAnswer = index;
      continue;
    }
    if (item.runId === undefined) continue;
    const own = firstAnswers.get(item.runId) ?? (pending.includes(item.runId) ? items.length : undefined);
    if (own !== undefined && nextAnswer < own) moved.set(own, [item, ...(moved.get(own) ?? [])]);
  }
  if (moved.size === 0) return items;
  const late = new Set([...moved.values()].flat());
  const ordered = items.flatMap((item, index) => [...(moved.get(index) ?? []), ...(late.has(item) ? [] : [item])]);
  return [...ordered, ...(moved.get(items.length) ?? [])];
}

/** Groups and chunks of a growing list. Unchanged chunks stay the same objects. */
export class Chunks {
  private before: Chunk[] = [];

  of(items: readonly Item[], origins: ReadonlyMap<string, Origin>): Chunk[] {
    const chunks: Chunk[] = [];
    const entries = this.entriesOf(items, origins);
    for (let start = 0; start < entries.length; start += chunkSize) {
      const part = entries.slice(start, start + chunkSize);
      const same = this.before[chunks.length];
      const isSame =
        same?.entries.length === part.length && part.every((entry, at) => isEqual(entry, same.entries[at]));
      chunks.push(isSame && same !== undefined ? same : { id: part[0]?.id ?? "", entries: part });
    }
    this.before = chunks;
    return chunks;
  }

  private entriesOf(items: readonly Item[], origins: ReadonlyMap<string, Origin>): Entry[] {
    const entries: Entry[] = [];
    for (let at = 0; at < items.length; at++) {
      const item = items[at] as Item;
      const calls = [item];
      while (at + 1 < items.length && areTogether(item, items[at + 1] as Item, origins))
        calls.push(items[++at] as Item);
      entries.push(calls.length === 1 ? item : { kind: "calls", id: item.id, calls: calls as ToolItem[] });
    }
    return entries;
  }
}

function isEqual(one: Entry, other: Entry | undefined): boolean {
  if (one === other) return true;
  if (one.kind !== "calls" || other?.kind !== "calls" || one.calls.length !== other.calls.length) return false;
  return one.calls.every((call, at) => call === other.calls[at]);
}

/** A guess of the height of an entry in pixels, until it is shown. */
export function guessHeight(entry: Entry): number {
  if (entry.kind === "calls") return 60 + 44 * entry.calls.length;
  if (entry.kind === "tool" || entry.kind === "thinking") return 56;
  const text =
    entry.kind === "text"
      ? entry.text
      : entry.kind === "user"
        ? entry.content.map((block) => block.text ?? "").join("\n")
        : "";
  return 56 + 24 * (text.length / 90 + text.split("\n").length);
}
