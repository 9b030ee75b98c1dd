// The samples in the pages of the clients compile against the packed packages.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const pages = ["typescript", "react"];
// The names that the samples take from the application.
const given = "declare const key: string; declare function render(value: unknown): void;\n";

test("the samples compile", () => {
  const samples = new Map();
  for (const page of pages) {
    const text = readFileSync(new URL(`../../../clients/${page}/README.md`, import.meta.url), "utf8");
    for (const [index, [, code]] of [...text.matchAll(/```tsx?\n([^]*?)```/g)].entries()) {
      samples.set(fileURLToPath(new URL(`${page}-${index}.tsx`, import.meta.url)), `${given}${code}\nexport {};\n`);
    }
  }
  assert.equal(samples.size, 4);
  const options = {
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
    jsx: ts.JsxEmit.ReactJSX, lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"], types: [],
    strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: true,
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.getSourceFile = (name, ...rest) =>
    samples.has(name) ? ts.createSourceFile(name, samples.get(name), ts.ScriptTarget.ES2022) : getSourceFile.call(host, name, ...rest);
  host.fileExists = (name) => samples.has(name) || fileExists.call(host, name);
  host.readFile = (name) => samples.get(name) ?? readFile.call(host, name);
  const found = ts.getPreEmitDiagnostics(ts.createProgram([...samples.keys()], options, host));
  assert.equal(ts.formatDiagnostics(found, host), "");
});
