/** Keyboard shortcuts. All have a modifier, except Escape: no single character is a command. */

import type { TextKey } from "../text/table";
import { stop } from "../conversation/Composer";
import { conversation } from "../state/thread";

export const shortcuts: { keys: string; text: TextKey }[] = [
  { keys: "Enter", text: "helpSend" },
  { keys: "Shift + Enter", text: "helpLine" },
  { keys: "Esc", text: "helpStop" },
  { keys: "Ctrl + I", text: "helpFocus" },
  { keys: "Ctrl + K", text: "helpSearch" },
  { keys: "Ctrl + Shift + O", text: "helpNew" },
  { keys: "Ctrl + /", text: "helpHelp" },
];

export interface Commands {
  openNew: () => void;
  openSettings: () => void;
}

/** Handles the shortcuts of the page until the returned function is called. */
export function listen({ openNew, openSettings }: Commands): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.isComposing) return;
    if (event.key === "Escape") {
      if (!closesSomething(event.target) && conversation.peek().status !== "idle") stop();
      return;
    }
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const command = commandOf(event, openNew, openSettings);
    if (command === undefined) return;
    event.preventDefault();
    command();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

/** Escape closes a dialog or a menu, and empties a search: it does not stop the agent then. */
function closesSomething(target: EventTarget | null): boolean {
  if (document.querySelector("dialog[open], :popover-open") !== null) return true;
  return target instanceof HTMLElement && target.id !== "message" && target.matches("input, select, textarea");
}

function commandOf(event: KeyboardEvent, openNew: () => void, openSettings: () => void): (() => void) | undefined {
  const name = event.key.toLowerCase();
  if (event.shiftKey) return name === "o" ? openNew : undefined;
  if (name === "i") return () => document.getElementById("message")?.focus();
  if (name === "k") return () => document.getElementById("search")?.focus();
  return name === "/" ? openSettings : undefined;
}
