/** The client of a tree of components. */

import type { Twostep } from "@twostep/client";
import { createContext, createElement, type ReactNode, useContext } from "react";

const ClientContext = createContext<Twostep | undefined>(undefined);

/** Makes a client available to all hooks below. Create the client once, outside of components. */
export function TwostepProvider({ client, children }: { client: Twostep; children: ReactNode }): ReactNode {
  return createElement(ClientContext.Provider, { value: client }, children);
}

/** The client of the nearest `TwostepProvider`. */
export function useClient(): Twostep {
  const client = useContext(ClientContext);
  if (client === undefined) throw new Error("a component with hooks of @twostep/react must be inside of a TwostepProvider");
  return client;
}
