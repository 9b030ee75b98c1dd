/** Markdown of a model as HTML that runs nothing and loads nothing. */

import DOMPurify, { type Config } from "dompurify";
import { Marked, type Tokens } from "marked";

const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escaped = (text: string) => text.replace(/[&<>"']/g, (character) => names[character] ?? character);

/** An address that a link may have; undefined if following it could run a script. */
function safeAddress(href: string): string | undefined {
  try {
    const { protocol } = new URL(href);
    return ["http:", "https:", "mailto:"].includes(protocol) ? href : undefined;
  } catch {
    return undefined;
  }
}

function link(href: string, content: string): string {
  const address = safeAddress(href);
  return address === undefined ? content : `<a href="${escaped(address)}">${content}</a>`;
}

const marked = new Marked({
  gfm: true,
  renderer: {
    // Tags of the text are shown as text.
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escaped(text),
    // An image would report to its host that it is read, with what its address contains.
    image: ({ href, text }: Tokens.Image) => link(href, escaped(text || href)),
    link({ href, tokens }: Tokens.Link) {
      return link(href, this.parser.parseInline(tokens));
    },
    code({ text, lang }: Tokens.Code) {
      const name = /^[\w+#-]+/.exec(lang ?? "")?.[0] ?? "";
      const language = name === "" ? "" : ` class="language-${escaped(name.toLowerCase())}"`;
      return `<pre tabindex="0"><code${language}>${escaped(text)}\n</code></pre>`;
    },
    table({ header, rows, align }: Tokens.Table) {
      const cell = (tag: string) => (one: Tokens.TableCell, column: number) => {
        const side = align[column];
        const alignment = side === null || side === undefined ? "" : ` class="align-${side}"`;
        return `<${tag}${alignment}>${this.parser.parseInline(one.tokens)}</${tag}>`;
      };
      const row = (tag: string, cells: Tokens.TableCell[]) => `<tr>${cells.map(cell(tag)).join("")}</tr>`;
      const body = rows.map((cells) => row("td", cells)).join("");
      return `<div class="scroll" tabindex="0"><table><thead>${row("th", header)}</thead><tbody>${body}</tbody></table></div>`;
    },
    checkbox: ({ checked }: Tokens.Checkbox) => (checked ? "☑ " : "☐ "),
  },
});

const allowed: Config = {
  ALLOWED_TAGS: [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "div",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
  ],
  ALLOWED_ATTR: ["class", "dir", "href", "rel", "start", "tabindex", "target"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_TRUSTED_TYPE: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  // Each paragraph has the direction of its own text.
  if (["P", "LI", "BLOCKQUOTE", "TD", "TH", "UL", "OL"].includes(node.tagName) || /^H\d$/.test(node.tagName)) {
    node.setAttribute("dir", "auto");
  }
});

/** HTML with nothing but the allowed tags and attributes. With trusted types it is an object. */
export function sanitized(html: string): string {
  return DOMPurify.sanitize(html, allowed) as unknown as string;
}

export function htmlOf(markdown: string): string {
  return sanitized(marked.parse(markdown, { async: false }));
}
