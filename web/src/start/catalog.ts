/** What a new session can have: agents, models, tools. A list that the key may not read is empty. */

import { type Agent, type Info, type Model, type Tool, read } from "../service/api";
import { report } from "../state/access";

export interface Catalog {
  agents: Agent[];
  models: Model[];
  tools: Tool[];
  mayBypass: boolean;
}

async function list<T>(path: string): Promise<T[]> {
  const found = read<{ data: T[] }>(path).then(({ data }) => data);
  return found.catch((error: { status?: number }) => {
    if (error.status === 401) report(error);
    return [];
  });
}

export async function loadCatalog(): Promise<Catalog> {
  const info = read<Info>("/info").then(
    ({ features }) => features.bypass,
    () => false,
  );
  const [agents, models, tools, mayBypass] = await Promise.all([
    list<Agent>("/agents"),
    list<Model>("/models"),
    list<Tool>("/tools"),
    info,
  ]);
  return { agents, models, tools, mayBypass };
}

/** The tools of each tool server, by the names `mcp__SERVER__TOOL`. */
export function serversOf(tools: Tool[]): Map<string, number> {
  const servers = new Map<string, number>();
  for (const { name } of tools) {
    const server = /^mcp__(.+?)__/.exec(name)?.[1];
    if (server !== undefined) servers.set(server, (servers.get(server) ?? 0) + 1);
  }
  return servers;
}
