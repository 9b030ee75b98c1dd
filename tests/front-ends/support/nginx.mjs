// nginx in front of a service, with docs/proxies/nginx.conf and compressed responses, streams included.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./service.mjs";

const documented = readFileSync(new URL("../../../docs/proxies/nginx.conf", import.meta.url), "utf8");

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts nginx. Its address has the prefix of the documented configuration. */
export async function startNginx(service) {
  const folder = mkdtempSync(join(tmpdir(), "twostep-nginx-"));
  const port = await freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`);
  const added = ["access_log off;", "gzip on;", "gzip_types *;", "gzip_proxied any;", "gzip_min_length 0;", ...temporary];
  const replace = (text, from, to) => {
    if (!text.includes(from)) throw new Error(`docs/proxies/nginx.conf has no "${from}"`);
    return text.replace(from, to);
  };
  let text = replace(documented, "server 127.0.0.1:8080;", `server ${new URL(service.url).host};`);
  text = replace(text, "listen 80;", `listen 127.0.0.1:${port};`);
  text = replace(text, "http {\n", `http {\n    ${added.join("\n    ")}\n`);
  text = replace(text, "worker_rlimit_nofile 8192;", `pid ${folder}/pid;\nerror_log ${folder}/error.log;\ndaemon off;`);
  const file = join(folder, "nginx.conf");
  writeFileSync(file, text);
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/usr/local/sbin` };
  const nginx = spawn("nginx", ["-p", folder, "-e", join(folder, "error.log"), "-c", file], { env, stdio: ["ignore", "inherit", "inherit"] });
  const ended = new Promise((resolve) => nginx.once("exit", resolve));
  const url = `http://127.0.0.1:${port}/agent`;
  const isReady = async () => {
    if (nginx.exitCode !== null) throw new Error(`nginx ended: ${readFileSync(join(folder, "error.log"), "utf8")}`);
    const response = await fetch(`${url}/readyz`).catch(() => undefined);
    return response?.ok;
  };
  await until(isReady, "nginx");
  const stop = async () => {
    nginx.kill();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  return { ...service, url, stop };
}
