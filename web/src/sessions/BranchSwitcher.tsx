/** The branch switcher: the tree of forks that the open session belongs to. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { go } from "../state/route";
import { list } from "../state/sessions";
import { session } from "../state/thread";
import { t } from "../text/text";
import { type Branch, branchesOf } from "./branches";

export function BranchSwitcher() {
  const branches = useSignal<Branch[]>([]);
  const open = session.value;
  const forks = list.value.filter((one) => one.forked_from?.session_id === open?.id).length;
  useEffect(() => {
    branches.value = [];
    // A browser token may not list forks.
    if (open !== undefined)
      void branchesOf(open).then(
        (found) => (branches.value = found),
        () => undefined,
      );
  }, [open?.id, forks]);
  if (open === undefined || branches.value.length < 2) return null;
  return (
    <label class="branches">
      <span class="visually-hidden">{t("branch")}</span>
      <select value={open.id} onChange={(event) => go(event.currentTarget.value)}>
        {branches.value.map((branch, index) => (
          <option key={branch.id} value={branch.id}>
            {labelOf(branch, index)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The label of a branch, indented by its depth in the tree. */
function labelOf({ title, depth }: Branch, index: number): string {
  const name = depth === 0 ? t("original") : `${t("branch")} ${index}`;
  return `${"\u00a0\u00a0".repeat(depth)}${name}: ${title ?? t("untitled")}`;
}
