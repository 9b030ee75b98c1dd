/** The colors of the page: those of the system, or a choice of the user. */

import { effect, signal } from "@preact/signals";
import { stored } from "./stored";

export const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

export const theme = signal<Theme>(stored.get("theme", themes) ?? "system");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
