/** Splits Markdown into blocks, so that only the last one is parsed again while it streams. */

const fence = /^ {0,3}(`{3,}|~{3,})/;

/**
 * The blocks of a text: parts between blank lines, outside fences and lists. All blocks except the last
 * stay the same when text is appended.
 */
export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  let block: string[] = [];
  let open: string | undefined;
  let isBlank = false;
  for (const line of text.split("\n")) {
    const mark = fence.exec(line)?.[1];
    const continues = /^(\s+\S|[-*+] |\d+[.)] |>|\|)/.test(line) && block.length > 0;
    if (open === undefined && isBlank && line.trim() !== "" && !continues) {
      blocks.push(block.join("\n"));
      block = [];
    }
    block.push(line);
    if (mark !== undefined) {
      if (open === undefined) open = mark;
      else if (mark.startsWith(open) && line.trim() === mark) open = undefined;
    }
    isBlank = open === undefined && line.trim() === "";
  }
  blocks.push(block.join("\n"));
  return blocks;
}
