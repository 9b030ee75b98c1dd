/** The open session, as part of the URL: `?s=ses_…`. */

import { signal } from "@preact/signals";

function current(): string | undefined {
  return new URLSearchParams(location.search).get("s") ?? undefined;
}

export const openId = signal(current());

addEventListener("popstate", () => {
  openId.value = current();
});

/** The address of a session, relative to the page. */
export function hrefOf(id: string | undefined): string {
  return id === undefined ? "./" : `./?s=${encodeURIComponent(id)}`;
}

/** Opens a session; without an id, the start. */
export function go(id: string | undefined): void {
  if (id === openId.value) return;
  history.pushState(null, "", hrefOf(id));
  openId.value = id;
}

/** The handler of a link to a session. A click with a modifier opens another tab as usual. */
export function follow(id: string | undefined) {
  return (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(id);
  };
}
