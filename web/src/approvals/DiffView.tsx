/** A change of a file as a unified diff. */

import { createTwoFilesPatch } from "diff";

type Input = Record<string, unknown>;

/** The change that a call makes, as its input describes it; undefined if it describes none. */
export function changeOf(name: string, input: Input): string | undefined {
  const file = String(input.file_path ?? input.path ?? "");
  if (typeof input.old_string === "string") return patchOf(file, input.old_string, String(input.new_string ?? ""));
  if (Array.isArray(input.edits)) {
    const edits = (input.edits as Input[]).map((edit) =>
      patchOf(file, String(edit.old_string ?? ""), String(edit.new_string ?? "")),
    );
    return edits.join("\n");
  }
  const writes = /write/i.test(name) && file !== "" && typeof input.content === "string";
  return writes ? patchOf(file, "", String(input.content)) : undefined;
}

function patchOf(file: string, before: string, after: string): string {
  const patch = createTwoFilesPatch(file, file, before, after, "", "", { context: 3 });
  return patch.replace(/^Index: .*\n=+\n/, "").replace(/\\ No newline at end of file\n?/g, "");
}

/** The lines of a patch. The sign at the start of a line says the same as its color. */
export function DiffView({ patch }: { patch: string }) {
  const lines = patch.replace(/\n$/, "").split("\n");
  const headers = new Set(["---", "+++"]);
  const shown = lines.filter((line) => !(line.startsWith("---") && line.trim() === "---"));
  return (
    <pre class="diff" tabIndex={0} dir="ltr">
      {shown.map((line, index) => {
        const kind = headers.has(line.slice(0, 3))
          ? "file"
          : line.startsWith("@@")
            ? "hunk"
            : line.startsWith("+")
              ? "added"
              : line.startsWith("-")
                ? "removed"
                : "same";
        return <span key={index} class={`line ${kind}`}>{`${line}\n`}</span>;
      })}
    </pre>
  );
}
