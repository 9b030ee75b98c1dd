/** What the browser keeps: settings for every tab, keys and drafts for this tab. */

/** Storage may be forbidden; the page then works without it. */
function attempt<T>(use: () => T): T | undefined {
  try {
    return use();
  } catch {
    return undefined;
  }
}

const prefix = "twostep.";

/** Settings of all tabs. */
export const stored = {
  get<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = attempt(() => localStorage.getItem(prefix + name));
    return allowed.find((one) => one === value);
  },
  set(name: string, value: string) {
    attempt(() => localStorage.setItem(prefix + name, value));
  },
};

/** Values of this tab. */
export const ofTab = {
  get: (name: string) => attempt(() => sessionStorage.getItem(prefix + name)) ?? undefined,
  set(name: string, value: string | undefined) {
    attempt(() => {
      if (value === undefined || value === "") sessionStorage.removeItem(prefix + name);
      else sessionStorage.setItem(prefix + name, value);
    });
  },
};
