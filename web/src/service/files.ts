/** Files of messages: uploads with progress, and their contents. */

import { ProblemError, Twostep, type UploadedFile } from "@twostep/client";
import { address, base, headers } from "./api";

/**
 * Uploads a file to a session, or for the first message of a new one. The client package sends it and repeats
 * it; only this kind of request reports the progress of an upload.
 */
export function upload(
  sessionId: string | undefined,
  file: File,
  signal: AbortSignal,
  onProgress: (share: number) => void,
): Promise<UploadedFile> {
  const fetch = (url: RequestInfo | URL, init?: RequestInit) => send(String(url), init, signal, onProgress);
  const service = new Twostep({ baseUrl: base, headers, fetch });
  if (sessionId !== undefined) return service.upload(sessionId, file);
  return service.request("/files", { method: "POST", query: { name: file.name }, body: file });
}

function send(
  url: string,
  { method = "POST", headers, body }: RequestInit = {},
  signal: AbortSignal,
  onProgress: (share: number) => void,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.responseType = "text";
    new Headers(headers).forEach((value, name) => request.setRequestHeader(name, value));
    // The service determines the type by the content.
    request.setRequestHeader("content-type", "application/octet-stream");
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    // As `fetch` reports a lost connection.
    request.onerror = () => reject(new TypeError("the connection was lost"));
    request.onabort = () => reject(signal.reason as Error);
    request.onload = () =>
      resolve(new Response(request.responseText, { status: request.status, headers: of(request) }));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(body as Blob);
  });
}

function of(request: XMLHttpRequest): Headers {
  const lines = request.getAllResponseHeaders().trim().split(/\r?\n/);
  return new Headers(lines.map((line): [string, string] => [line.split(":")[0] ?? "", line.replace(/^[^:]*:\s*/, "")]));
}

/** The newest contents stay in memory. */
const maxContents = 100;
const contents = new Map<string, Promise<string>>();

function keep(fileId: string, url: Promise<string>): void {
  contents.set(fileId, url);
  for (const [oldest, gone] of contents) {
    if (contents.size <= maxContents) return;
    contents.delete(oldest);
    void gone.then(URL.revokeObjectURL, () => undefined);
  }
}

/** An uploaded file needs no download in this tab. */
export function keepContent(fileId: string, file: File): void {
  keep(fileId, Promise.resolve(URL.createObjectURL(file)));
}

/** The address in memory of a file; of a session, or of a file that no message refers to yet. */
export function contentUrl(sessionId: string | undefined, fileId: string): Promise<string> {
  const known = contents.get(fileId);
  if (known !== undefined) return known;
  const folder = sessionId === undefined ? "" : `/sessions/${sessionId}`;
  const url = load(`${folder}/files/${fileId}/content`).then((content) => URL.createObjectURL(content));
  keep(fileId, url);
  url.catch(() => contents.delete(fileId));
  return url;
}

/** Reads what is no JSON document, so that the client package cannot return it. */
async function load(path: string): Promise<Blob> {
  const response = await fetch(address(path), { headers: headers() });
  const problem: unknown = response.ok ? undefined : await response.json().catch(() => undefined);
  if (!response.ok) throw new ProblemError(response.status, Object(problem) as object, response.headers);
  return response.blob();
}

/** Browsers may begin to read a content in memory some time after the click. */
const savingTime = 60_000;

/** Downloads an export as a file. */
export async function download(id: string, format: "jsonl" | "markdown"): Promise<void> {
  const url = URL.createObjectURL(await load(`/sessions/${id}/export?format=${format}`));
  save(url, `${id}.${format === "jsonl" ? "jsonl" : "md"}`);
  setTimeout(() => URL.revokeObjectURL(url), savingTime);
}

/** Saves a content of memory as a file. */
export function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
