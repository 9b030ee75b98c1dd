/** Tool servers that have changed their tools since the session was created. */

import { serverChanges } from "../state/toolServers";
import { t } from "../text/text";

export function ToolServers() {
  return (
    <>
      {serverChanges.value.map(({ server, removed, changed, added }) => (
        <details key={server} class="servers">
          <summary>{t("serverChanged", server)}</summary>
          <Tools label={t("toolsRemoved")} names={removed} />
          <Tools label={t("toolsChanged")} names={changed} />
          <Tools label={t("toolsAdded")} names={added} />
        </details>
      ))}
    </>
  );
}

function Tools({ label, names }: { label: string; names: string[] }) {
  if (names.length === 0) return null;
  return (
    <p>
      <span class="label">{label}:</span>{" "}
      {names.map((name) => (
        <code key={name}>{name} </code>
      ))}
    </p>
  );
}
