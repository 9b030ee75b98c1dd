/** The open session: header, conversation, state and input. */

import type { Signal } from "@preact/signals";
import { BranchSwitcher } from "../sessions/BranchSwitcher";
import { SessionMenu } from "../sessions/SessionMenu";
import { client } from "../service/api";
import { act } from "../state/access";
import { follow, hrefOf, openId } from "../state/route";
import { shownStatus, shownTitle } from "../state/shown";
import { conversation, isMissing, outcome, session } from "../state/thread";
import { named, t } from "../text/text";
import { Composer } from "./Composer";
import { Dock } from "./Dock";
import { Log } from "./Log";

export function Thread({ isInspecting }: { isInspecting: Signal<boolean> }) {
  const id = openId.value;
  const isDeleted = conversation.value.isDeleted || isMissing.value;
  return (
    <section class="thread" aria-label={t("conversation")}>
      <Header isInspecting={isInspecting} />
      <Log />
      <div class="bottom">
        <Dock />
        {session.value?.archived ? (
          <ArchivedNote />
        ) : (
          !isDeleted && <Composer draft={id ?? ""} sessionId={async () => id} />
        )}
      </div>
    </section>
  );
}

function Header({ isInspecting }: { isInspecting: Signal<boolean> }) {
  const open = session.value;
  const title = open === undefined ? t("loading") : (shownTitle(open) ?? t("untitled"));
  const status = open === undefined ? outcome.value : shownStatus(open);
  const parent = open?.parent?.session_id;
  const usage = open?.model;
  return (
    <header class="thread-header">
      <a href={hrefOf(undefined)} class="button quiet back" aria-label={t("back")} onClick={follow(undefined)}>
        ←
      </a>
      <div class="thread-title">
        <h1 dir="auto">{title}</h1>
        <p class="note">
          <span class={`dot dot-${status}`} aria-hidden="true" /> {named("", status)}
          {usage !== undefined && ` · ${usage}`}
          {open?.agent !== undefined && ` · ${open.agent.name}@${open.agent.version}`}
          {parent !== undefined && (
            <>
              {" "}
              ·{" "}
              <a href={hrefOf(parent)} onClick={follow(parent)}>
                ↑ {t("parentSession")}
              </a>
            </>
          )}
        </p>
      </div>
      <BranchSwitcher />
      <button
        type="button"
        aria-pressed={isInspecting.value}
        onClick={() => (isInspecting.value = !isInspecting.value)}
      >
        {t("inspect")}
      </button>
      <SessionMenu />
    </header>
  );
}

function ArchivedNote() {
  const restore = async () => {
    const id = openId.value;
    if (id === undefined) return;
    const changed = await act(() => client.updateSession(id, { archived: false }));
    if (changed !== undefined) session.value = changed;
  };
  return (
    <p class="composer note">
      {t("archivedNote")}{" "}
      <button type="button" onClick={() => void restore()}>
        {t("restore")}
      </button>
    </p>
  );
}
