/** The start: the first message of a new session, and the settings that it has. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Composer } from "../conversation/Composer";
import { client } from "../service/api";
import { keyVersion } from "../state/access";
import { go } from "../state/route";
import { mayList, put } from "../state/sessions";
import { t } from "../text/text";
import { type Catalog, loadCatalog } from "./catalog";
import { StartOptions, defaults, requestOf } from "./StartOptions";

const examples = ["tryRead", "tryTime", "tryList"] as const;

export function StartView() {
  const catalog = useSignal<Catalog | undefined>(undefined);
  const chosen = useSignal(defaults);
  const proposal = useSignal<string | undefined>(undefined);
  useEffect(() => {
    let isCurrent = true;
    void loadCatalog().then((found) => {
      if (isCurrent) catalog.value = found;
    });
    return () => {
      isCurrent = false;
    };
  }, [keyVersion.value, mayList.value]);

  const create = async (text: string) => {
    const title = text.split("\n")[0]?.slice(0, 80) || undefined;
    const session = await client.createSession({ ...requestOf(chosen.value), ...(title && { title }) });
    put(session);
    go(session.id);
    return session.id;
  };
  const isSimulator = catalog.value?.models.some(({ id, default: isDefault }) => isDefault && id === "simulator");
  return (
    <section class="start" aria-label={t("newSession")}>
      <div class="start-content">
        <h1>{t("welcome")}</h1>
        {isSimulator && (
          <div class="card">
            <p>{t("simulator")}</p>
            <ul class="examples">
              {examples.map((example) => (
                <li key={example}>
                  <button
                    type="button"
                    lang="en"
                    onClick={() => {
                      proposal.value = undefined;
                      proposal.value = t(example);
                    }}
                  >
                    {t(example)}
                  </button>
                </li>
              ))}
            </ul>
          </div>
        )}
        <Composer draft="new" sessionId={create} proposal={proposal.value} />
        {catalog.value !== undefined && <StartOptions catalog={catalog.value} chosen={chosen} />}
      </div>
    </section>
  );
}
