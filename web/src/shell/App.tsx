/** The page: sessions, the open conversation or the start, and the inspector. */

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Thread } from "../conversation/Thread";
import { SessionList } from "../sessions/SessionList";
import { StartView } from "../start/StartView";
import { waitingCount } from "../state/approvals";
import { go, openId } from "../state/route";
import { mayList } from "../state/sessions";
import { shownTitle } from "../state/shown";
import { session } from "../state/thread";
import { t } from "../text/text";
import { Announcer } from "./Announcer";
import { KeyForm } from "./KeyForm";
import { lazy } from "./lazy";
import { Notices } from "./Notices";
import { Settings } from "./Settings";
import { listen } from "./shortcuts";

const Inspector = lazy(() => import("../inspector/Inspector").then((module) => module.Inspector));

export function App() {
  const isInspecting = useSignal(false);
  const showsSettings = useSignal(false);
  const openNew = () => {
    go(undefined);
    setTimeout(() => document.getElementById("message")?.focus());
  };
  useEffect(() => listen({ openNew, openSettings: () => (showsSettings.value = true) }), []);
  const title = useComputed(() => {
    const name = session.value && shownTitle(session.value);
    const count = waitingCount.value > 0 ? `(${waitingCount.value}) ` : "";
    return `${count}${name ? `${name} · ` : ""}twostep`;
  });
  useSignalEffect(() => {
    document.title = title.value;
  });
  const isOpen = openId.value !== undefined;
  return (
    <div class={`app${isOpen ? " app-open" : ""}${isOpen && isInspecting.value ? " app-inspecting" : ""}`}>
      <a class="skip" href="#message" onClick={(event) => focusMessage(event)}>
        {t("skip")}
      </a>
      <aside class="sidebar">
        <header class="row">
          <a
            href="./"
            class="brand"
            onClick={(event) => {
              event.preventDefault();
              go(undefined);
            }}
          >
            twostep
          </a>
          <button type="button" onClick={openNew} aria-current={isOpen ? undefined : "page"}>
            {t("newSession")}
          </button>
          <button
            type="button"
            class="quiet"
            aria-label={t("settings")}
            title={t("settings")}
            onClick={() => (showsSettings.value = true)}
          >
            ⚙
          </button>
        </header>
        {mayList.value && <SessionList />}
      </aside>
      <main>
        <Notices />
        <div class="panes">
          {isOpen ? <Thread isInspecting={isInspecting} /> : <StartView />}
          {isOpen && isInspecting.value && <Inspector close={() => (isInspecting.value = false)} />}
        </div>
      </main>
      {showsSettings.value && <Settings close={() => (showsSettings.value = false)} />}
      <KeyForm />
      <Announcer />
    </div>
  );
}

function focusMessage(event: MouseEvent) {
  event.preventDefault();
  document.getElementById("message")?.focus();
}
