/** The service: the client package, and the routes that it has no methods for. */

import { type Page, type Query, Twostep } from "@twostep/client";
import { key, observed } from "../state/access";
import type { components } from "../../../clients/typescript/src/schema";

type Schemas = components["schemas"];
export type Agent = Schemas["AgentSummary"];
export type Explanation = Schemas["ExplanationResource"];
export type Info = Schemas["InfoResource"];
export type McpServer = Schemas["McpServerResource"];
export type Model = Schemas["ModelResource"];
export type ModelRequest = Schemas["RequestResource"];
export type NumberedEvent = Schemas["Event"];
export type SessionUsage = Schemas["SessionUsage"];
export type Tool = Schemas["ToolResource"];
export type Verification = Schemas["VerificationResource"];

/** The URL of the service: the page is in a folder of it. */
export const base = new URL("../", location.origin + location.pathname);

export const headers = (): Record<string, string> =>
  key.peek() === undefined ? {} : { authorization: `Bearer ${key.peek()}` };

export const client = new Twostep({ baseUrl: base, headers, fetch: observed });

/** The URL of a route. */
export const address = (path: string) => new URL(`v1${path}`, base).href;

/** Reads a resource that the client package has no method for. */
export function read<T>(path: string, query: Query = {}): Promise<T> {
  return client.request<T>(path, { query });
}

/** Reads all pages of a list. */
export async function readAll<T>(path: string, query: Query = {}): Promise<T[]> {
  const items: T[] = [];
  for (let after: string | undefined; ;) {
    const page = await read<Page<T>>(path, { limit: 200, ...query, after });
    items.push(...page.data);
    if (page.data.length === 0 || page.next_cursor == null) return items;
    after = page.next_cursor;
  }
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** A command that sends the same request. The key is a variable: a copied command contains no secret. */
export function curl(path: string, body?: unknown): string {
  const parts = ["curl", "-sN", quoted(address(path))];
  if (key.peek() !== undefined) parts.push("-H", '"Authorization: Bearer $TWOSTEP_KEY"');
  if (body !== undefined) {
    parts.push("-H", quoted("Content-Type: application/json"), "-H", quoted("Accept: text/event-stream"));
    parts.push("-d", quoted(JSON.stringify(body)));
  }
  return parts.join(" ");
}
