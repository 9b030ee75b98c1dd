/** The highlighter, which is loaded with the first block of code that has a language. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { sanitized } from "./html";

const languages = { bash, css, diff, go, json, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);
hljs.registerAliases(["js", "javascript", "jsx", "ts", "tsx"], { languageName: "typescript" });
hljs.registerAliases(["sh", "shell", "console"], { languageName: "bash" });

/** Long code stays plain: highlighting it would block the page. */
const limit = 50_000;

/** Highlights an element with code, if its language is known. */
export function highlight(code: HTMLElement): void {
  const language = /language-(\S+)/.exec(code.className)?.[1];
  const text = code.textContent ?? "";
  if (language === undefined || hljs.getLanguage(language) === undefined || text.length > limit) return;
  code.innerHTML = sanitized(hljs.highlight(text, { language, ignoreIllegals: true }).value);
}
