/** Files that the user has chosen for a message that is not sent yet. */

import { signal } from "@preact/signals";
import { type ContentBlock, ProblemError, type UploadedFile } from "@twostep/client";
import { keepContent, upload } from "../service/files";
import { describe, report } from "../state/access";
import { ofTab } from "../state/stored";

export interface Attachment {
  key: number;
  name: string;
  /** The part that is uploaded, from 0 to 1. */
  share: number;
  /** The id and the type of the uploaded file. */
  stored: Pick<UploadedFile, "id" | "media_type"> | undefined;
  /** The reason why the service has not stored the file. */
  error: string | undefined;
}

interface Work {
  file: File;
  abort: AbortController;
  end: Promise<void>;
}

let lastKey = 0;

/** The attachments of one draft. They are uploaded at once; the tab keeps the ids with the text of the draft. */
export class Attachments {
  readonly list = signal<Attachment[]>([]);
  private readonly works = new Map<number, Work>();

  constructor(
    private readonly draft: string,
    /** Undefined for the first message of a new session. */
    readonly sessionId: string | undefined,
  ) {
    const kept = JSON.parse(ofTab.get(`files.${draft}`) ?? "[]") as { name: string; id: string; media_type: string }[];
    this.list.value = kept.map(({ name, ...stored }) => ({ key: ++lastKey, name, share: 1, stored, error: undefined }));
  }

  add(files: Iterable<File>): void {
    for (const file of files) {
      const one = { key: ++lastKey, name: file.name, share: 0, stored: undefined, error: undefined };
      this.list.value = [...this.list.value, one];
      this.begin(one.key, file);
    }
  }

  remove(key: number): void {
    this.works.get(key)?.abort.abort();
    this.works.delete(key);
    this.set(this.list.value.filter((one) => one.key !== key));
  }

  retry(key: number): void {
    const file = this.works.get(key)?.file;
    if (file !== undefined) this.begin(key, file);
  }

  /** Waits for the uploads. Returns true if the service has stored all files. */
  async settle(): Promise<boolean> {
    await Promise.all([...this.works.values()].map(({ end }) => end));
    return this.list.value.every(({ stored }) => stored !== undefined);
  }

  /** The blocks of a message that refers to the files, which are no longer attached then. */
  take(): ContentBlock[] {
    const blocks = this.list.value.flatMap(({ name, stored }): ContentBlock[] => {
      if (stored === undefined) return [];
      const source = { type: "file", file_id: stored.id };
      return [isImage(stored) ? { type: "image", source } : { type: "document", title: name, source }];
    });
    this.works.clear();
    this.set([]);
    return blocks;
  }

  private begin(key: number, file: File): void {
    const abort = new AbortController();
    this.change(key, { share: 0, error: undefined });
    const end = this.send(key, file, abort.signal);
    this.works.set(key, { file, abort, end });
  }

  private async send(key: number, file: File, signal: AbortSignal): Promise<void> {
    try {
      const stored = await upload(this.sessionId, file, signal, (share) => this.change(key, { share }));
      if (isImage(stored)) keepContent(stored.id, file);
      this.change(key, { share: 1, stored });
    } catch (error) {
      if (signal.aborted) return;
      if ((error as { status?: number }).status === 401) report(error);
      this.change(key, { error: reasonOf(error) });
    }
  }

  private change(key: number, changes: Partial<Attachment>): void {
    this.set(this.list.value.map((one) => (one.key === key ? { ...one, ...changes } : one)));
  }

  private set(list: Attachment[]): void {
    this.list.value = list;
    const kept = list.flatMap(({ name, stored }) =>
      stored === undefined ? [] : [{ name, id: stored.id, media_type: stored.media_type }],
    );
    ofTab.set(`files.${this.draft}`, kept.length === 0 ? undefined : JSON.stringify(kept));
  }
}

export const isImage = ({ media_type: type }: { media_type: string }) => type.startsWith("image/");

/** The service states what is wrong with the content of a file as an error of its body. */
function reasonOf(error: unknown): string {
  const { errors } = error instanceof ProblemError ? error.problem : {};
  return errors?.[0]?.message ?? describe(error).text;
}

const drafts = new Map<string, Attachments>();

/** The attachments of a draft, which is `new` for a new session or has the id of a session. */
export function attachmentsOf(draft: string): Attachments {
  const known = drafts.get(draft) ?? new Attachments(draft, draft === "new" ? undefined : draft);
  drafts.set(draft, known);
  return known;
}
