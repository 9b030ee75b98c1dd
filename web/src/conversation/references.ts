/** The uploaded files of messages. Events name them in texts: `[image file_…]`, `[document "Plan" file_…]`. */

import type { ContentBlock } from "@twostep/client";

const pattern = /^\[(image|document)(?: "((?:[^"\\]|\\.)*)")? (file_[0-9a-f]{32})\]$/;

/** The blocks of a message with references in place of the texts that name files. */
export function withReferences(content: ContentBlock[]): ContentBlock[] {
  return content.map((block) => {
    const [, type, title, fileId] = (block.type === "text" && pattern.exec(block.text ?? "")) || [];
    if (type === undefined) return block;
    return { type, ...(title !== undefined && { title: unescaped(title) }), source: { type: "file", file_id: fileId } };
  });
}

/** The escapes of a title: `\"`, `\\`, `\n`, `\u{200b}` and the like. */
function unescaped(title: string): string {
  return title.replace(/\\(?:u\{([0-9a-f]+)\}|(.))/g, (_, code: string | undefined, letter: string) => {
    if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16));
    return { n: "\n", r: "\r", t: "\t", 0: "\0" }[letter] ?? letter;
  });
}
