/** Files of the user as blocks of a message. */

export interface Attached {
  name: string;
  block: Record<string, unknown>;
  /** The address of the image in memory. */
  preview: string | undefined;
}

const images = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const maxTextBytes = 1_000_000;

/** Reads files. Those that no message can contain are named in `refused`. */
export async function attach(files: Iterable<File>): Promise<{ attached: Attached[]; refused: string[] }> {
  const attached: Attached[] = [];
  const refused: string[] = [];
  for (const file of files) {
    const one = await read(file);
    if (one === undefined) refused.push(file.name);
    else attached.push(one);
  }
  return { attached, refused };
}

async function read(file: File): Promise<Attached | undefined> {
  const { name, type } = file;
  if (images.includes(type)) {
    const source = { type: "base64", media_type: type, data: await base64(file) };
    return { name, preview: URL.createObjectURL(file), block: { type: "image", source } };
  }
  if (type === "application/pdf") {
    const source = { type: "base64", media_type: type, data: await base64(file) };
    return { name, preview: undefined, block: { type: "document", title: name, source } };
  }
  const text = file.size <= maxTextBytes ? await file.text() : "\0";
  if (text.includes("\0") || text.includes("\uFFFD") || text.trim() === "") return undefined;
  const source = { type: "text", media_type: "text/plain", data: text };
  return { name, preview: undefined, block: { type: "document", title: name, source } };
}

async function base64(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(binary);
}
