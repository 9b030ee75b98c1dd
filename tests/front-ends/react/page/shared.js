// The client and the settings of a test: the part of the address after "#" has them as JSON.

import { Twostep } from "@twostep/client";
import { createElement, StrictMode } from "react";
import { createRoot } from "react-dom/client";

export const settings = JSON.parse(decodeURIComponent(location.hash.slice(1)));
export const client = new Twostep({ baseUrl: settings.url, headers: () => ({ authorization: `Bearer ${settings.key}` }) });

export const openId = () => new URL(location.href).searchParams.get("id") ?? undefined;

/** Puts the id of the open session into the address, for a reload. */
export function setOpenId(id) {
  const url = new URL(location.href);
  url.searchParams.set("id", id);
  history.replaceState(null, "", url);
}

export const show = (page) => createRoot(document.querySelector("#root")).render(createElement(StrictMode, null, page));
