// Compresses the built scripts and styles, and prints the size of the scripts. The bytes depend on the
// content alone, so that a second build changes no file.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const folder = new URL("../dist/assets/", import.meta.url);
const limit = 150_000;
let scripts = 0;
for (const name of readdirSync(folder).sort()) {
  if (!/\.(js|css|svg)$/.test(name)) continue;
  const packed = gzipSync(readFileSync(new URL(name, folder)), { level: 9 });
  writeFileSync(new URL(`${name}.gz`, folder), packed);
  if (name.endsWith(".js")) scripts += packed.length;
  console.log(`${String(packed.length).padStart(7)}  ${name}`);
}
console.log(`${String(scripts).padStart(7)}  all scripts, compressed; at most ${limit}`);
if (scripts > limit) process.exit(1);
