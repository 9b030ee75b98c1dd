/** Parts of the service that do not work and that the open session needs. */

import { type Trouble, troubles } from "../state/health";
import { conversation, session } from "../state/thread";
import { t } from "../text/text";

export function Troubles() {
  const tools = session.value?.tools ?? [];
  const isActive = conversation.value.status !== "idle";
  const mine = troubles.value.filter(({ server }) =>
    server === undefined ? isActive : tools.some((name) => name.startsWith(`mcp__${server}__`)),
  );
  if (mine.length === 0) return null;
  return (
    <ul class="troubles" role="status">
      {mine.map((trouble) => (
        <li key={trouble.name} title={trouble.detail}>
          {sentenceOf(trouble)}
        </li>
      ))}
    </ul>
  );
}

function sentenceOf({ name, detail, server }: Trouble): string {
  if (server !== undefined) return t("trouble_server", server);
  return name === "model" ? t("trouble_model") : t("trouble_other", name, detail);
}
