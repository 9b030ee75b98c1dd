/** The clipboard, with a report of success for all readers. */

import { t } from "../text/text";
import { confirm } from "./Announcer";

export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    await navigator.clipboard.writeText(text);
  } else {
    // Pages without a secure context have no clipboard object.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  confirm(t("copied"));
}
