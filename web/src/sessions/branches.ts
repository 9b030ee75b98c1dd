/** The forks of a conversation: its source, and the other forks of both. */

import type { Page, Session } from "@twostep/client";
import { client, read } from "../service/api";

export interface Branch {
  id: string;
  title: string | null;
  /** The number of forks between it and the first session. */
  depth: number;
}

const maxDepth = 8;
const maxForks = 100;

/** All branches of the tree that a session belongs to, in the order of the tree. */
export async function branchesOf(session: Session): Promise<Branch[]> {
  let root = session;
  for (let depth = 0; root.forked_from !== undefined && depth < maxDepth; depth++) {
    // The source may have been deleted, or may belong to another user.
    const source = await client.session(root.forked_from.session_id).catch(() => undefined);
    if (source === undefined) break;
    root = source;
  }
  const branches: Branch[] = [];
  await collect(root, 0, branches);
  return branches;
}

async function collect(session: Session, depth: number, into: Branch[]): Promise<void> {
  into.push({ id: session.id, title: session.title, depth });
  if (depth >= maxDepth || into.length >= maxForks) return;
  const forks = await read<Page<Session>>(`/sessions/${session.id}/forks`, { limit: 50, order: "asc" });
  for (const fork of forks.data) await collect(fork, depth + 1, into);
}
