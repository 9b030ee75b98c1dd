/** What a new session can have: agents, models, tools, MCP servers. A list that the key may not read is empty. */

import { type Agent, type Info, type McpServer, type Model, type Tool, read } from "../service/api";
import { report } from "../state/access";

export interface Catalog {
  agents: Agent[];
  models: Model[];
  tools: Tool[];
  servers: McpServer[];
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
  const [agents, models, tools, servers, mayBypass] = await Promise.all([
    list<Agent>("/agents"),
    list<Model>("/models"),
    list<Tool>("/tools"),
    list<McpServer>("/mcp-servers"),
    info,
  ]);
  return { agents, models, tools, servers, mayBypass };
}
