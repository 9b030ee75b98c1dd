/** The menu of the open session: rename, fork, archive, export, delete. */

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { client, curl } from "../service/api";
import { download } from "../service/files";
import { copyText } from "../shell/copy";
import { Dialog } from "../shell/Dialog";
import { act } from "../state/access";
import { notifies } from "../state/approvals";
import { go } from "../state/route";
import { drop, put, showsArchived } from "../state/sessions";
import { session } from "../state/thread";
import { t } from "../text/text";

export function SessionMenu() {
  const menu = useRef<HTMLDivElement>(null);
  const dialog = useSignal<"rename" | "delete" | undefined>(undefined);
  const open = session.value;
  if (open === undefined) return null;
  const { id, archived } = open;

  const choose = (action: () => unknown) => () => {
    menu.current?.hidePopover();
    void action();
  };
  const change = async (changes: Parameters<typeof client.updateSession>[1]) => {
    const changed = await act(() => client.updateSession(id, changes));
    if (changed === undefined) return;
    session.value = changed;
    if (changed.archived === showsArchived.value) put(changed);
    else drop(id);
  };
  const remove = async () => {
    const isDone = await act(() => client.deleteSession(id, { forks: "delete" }).then(() => true));
    if (isDone === undefined) return;
    drop(id);
    go(undefined);
  };
  const forkHere = async () => {
    const fork = await act(() => client.fork(id, {}));
    if (fork === undefined) return;
    put(fork);
    go(fork.id);
  };
  const notify = async () => {
    notifies.value = !notifies.value && (await Notification.requestPermission()) === "granted";
  };
  const item = (text: string, action: () => unknown) => (
    <button key={text} type="button" onClick={choose(action)}>
      {text}
    </button>
  );
  return (
    <>
      <button type="button" popovertarget="session-menu" aria-haspopup="true" title={t("more")} aria-label={t("more")}>
        ⋯
      </button>
      <div id="session-menu" class="menu" popover="auto" ref={menu}>
        {item(t("rename"), () => (dialog.value = "rename"))}
        {item(t("fork"), forkHere)}
        {item(t(archived ? "restore" : "archive"), () => change({ archived: !archived }))}
        {"Notification" in window && item(`${notifies.value ? "✓ " : ""}${t("notify")}`, notify)}
        {item(`${t("export")}: JSON`, () => act(() => download(id, "jsonl")))}
        {item(`${t("export")}: Markdown`, () => act(() => download(id, "markdown")))}
        {item(t("curl"), () => copyText(curl(`/sessions/${id}/events/stream`)))}
        {item(`${t("remove_")}…`, () => (dialog.value = "delete"))}
      </div>
      {dialog.value === "rename" && (
        <RenameDialog
          title={open.title ?? ""}
          close={() => (dialog.value = undefined)}
          save={(title) => change({ title: title || null })}
        />
      )}
      {dialog.value === "delete" && (
        <Dialog title={t("remove_")} close={() => (dialog.value = undefined)}>
          <p>{t("confirmDelete")}</p>
          <div class="row">
            <button type="button" class="danger" onClick={() => void remove()}>
              {t("remove_")}
            </button>
            <button type="button" onClick={() => (dialog.value = undefined)}>
              {t("cancel")}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

interface RenameProps {
  title: string;
  close: () => void;
  save: (title: string) => Promise<void>;
}

function RenameDialog({ title, close, save }: RenameProps) {
  const value = useSignal(title);
  return (
    <Dialog title={t("rename")} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save(value.value.trim()).then(close);
        }}
      >
        <label>
          {t("title")}
          <input
            type="text"
            dir="auto"
            maxLength={500}
            value={value}
            onInput={(event) => (value.value = event.currentTarget.value)}
          />
        </label>
        <div class="row">
          <button type="submit" class="primary">
            {t("save")}
          </button>
          <button type="button" onClick={close}>
            {t("cancel")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
