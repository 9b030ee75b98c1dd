// A back end that gives the browser of a signed-in user a token for one conversation. PAGE is a file to serve.
//   TWOSTEP_API_KEY=tsk_… node back-end.mjs
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { TWOSTEP_URL: service = "http://127.0.0.1:8080", TWOSTEP_API_KEY: key, PORT = 3000, PAGE } = process.env;

async function twostep(path, body) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(service + path, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

createServer(async (request, response) => {
  const send = (status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  if (PAGE && request.method === "GET") return response.writeHead(200, { "content-type": "text/html" }).end(readFileSync(PAGE));
  const user = /(?:^|; )user=(\w+)(?:;|$)/.exec(request.headers.cookie)?.[1]; // replace this by your login
  if (!user) return send(401, { error: "sign in first" });
  if (request.method !== "POST" || request.url !== "/chat") return send(404, { error: "not found" });
  try {
    let text = "";
    for await (const part of request) text += part;
    const session = await twostep("/v1/sessions", { external_id: JSON.parse(text).id, user, agent: "general" });
    if (session.status >= 300) return send(session.status, session.body);
    const scopes = ["read", "post", "decide", "cancel"];
    const token = await twostep("/v1/browser_tokens", { session_id: session.body.id, scopes });
    send(token.status, token.body);
  } catch (error) {
    send(error instanceof SyntaxError ? 400 : 502, { error: error.message });
  }
}).listen(PORT, "127.0.0.1", function () { console.log(`listening on http://127.0.0.1:${this.address().port}`); });
