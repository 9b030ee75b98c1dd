/** Tokens in four buckets, cost and cache share of a run and of the session, and the check of the session. */

import { useSignal } from "@preact/signals";
import type { Run, Usage } from "@twostep/client";
import { useEffect } from "preact/hooks";
import { type SessionUsage, type Verification, read } from "../service/api";
import { act, report } from "../state/access";
import { conversation, session } from "../state/thread";
import { dollars, number, percent, t } from "../text/text";

type Counts = Pick<Usage, "input_tokens" | "cache_creation_input_tokens" | "cache_read_input_tokens" | "output_tokens">;

export function UsageView({ sessionId, run }: { sessionId: string; run: Run }) {
  const total = useSignal<SessionUsage | undefined>(undefined);
  useEffect(() => {
    void read<SessionUsage>(`/sessions/${sessionId}/usage`).then((found) => (total.value = found), report);
  }, [sessionId, conversation.value.usage]);
  const whole = total.value?.total as (Counts & { cost?: number; usage?: Counts }) | undefined;
  const counts = whole?.usage ?? (whole?.input_tokens === undefined ? session.value?.usage : whole);
  return (
    <>
      <Buckets title={t("run")} usage={run.usage} cost={run.cost} />
      {counts !== undefined && <Buckets title={t("total")} usage={counts} cost={whole?.cost ?? session.value?.cost} />}
      <Check sessionId={sessionId} />
    </>
  );
}

const rows = [
  ["uncached", "input_tokens"],
  ["cacheWrite", "cache_creation_input_tokens"],
  ["cacheRead", "cache_read_input_tokens"],
  ["outputTokens", "output_tokens"],
] as const;

function Buckets({ title, usage, cost }: { title: string; usage: Counts; cost: number | undefined }) {
  const value = (name: (typeof rows)[number][1]) => usage[name] ?? 0;
  const input = value("input_tokens") + value("cache_creation_input_tokens") + value("cache_read_input_tokens");
  const largest = Math.max(1, ...rows.map(([, name]) => value(name)));
  return (
    <table class="buckets">
      <caption>{title}</caption>
      <tbody>
        {rows.map(([text, name]) => (
          <tr key={name}>
            <th scope="row">
              {t(text)}
              <span class="track" aria-hidden="true">
                <span class="bar" style={{ width: `${(value(name) / largest) * 100}%` }} />
              </span>
            </th>
            <td>{number(value(name))}</td>
          </tr>
        ))}
        <tr>
          <th scope="row">{t("cacheShare")}</th>
          <td>{input === 0 ? "–" : percent(value("cache_read_input_tokens") / input)}</td>
        </tr>
        <tr>
          <th scope="row">{t("cost")}</th>
          <td>{cost === undefined ? t("noPrice") : dollars(cost)}</td>
        </tr>
      </tbody>
    </table>
  );
}

function Check({ sessionId }: { sessionId: string }) {
  const result = useSignal<Verification | undefined>(undefined);
  const check = async () => {
    result.value = await act(() => read<Verification>(`/sessions/${sessionId}/verify`));
  };
  const found = result.value;
  return (
    <section class="verification">
      <button type="button" onClick={() => void check()}>
        {t("verify")}
      </button>
      {found !== undefined && (
        <p role="status">
          <span class={`badge ${found.is_valid ? "good" : "bad"}`}>
            {found.is_valid ? `✓ ${t("verified")}` : `✕ ${t("notVerified", found.findings.length)}`}
          </span>
        </p>
      )}
      {found !== undefined && found.findings.length > 0 && (
        <pre tabIndex={0}>{JSON.stringify(found.findings, null, 2)}</pre>
      )}
    </section>
  );
}
