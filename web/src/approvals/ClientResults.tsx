/** Calls of tools that a client runs: without another client, the user can write their results. */

import { useSignal } from "@preact/signals";
import type { ToolItem } from "@twostep/client";
import { InputView } from "../conversation/ToolCard";
import { client } from "../service/api";
import { act } from "../state/access";
import { openId } from "../state/route";
import { conversation } from "../state/thread";
import { t } from "../text/text";

export function ClientResults() {
  const { items, status } = conversation.value;
  if (status !== "requires_action") return null;
  const calls = items.filter((item): item is ToolItem => item.kind === "tool" && item.state === "awaiting_client");
  return (
    <>
      {calls.map((call) => (
        <ResultForm key={call.id} call={call} />
      ))}
    </>
  );
}

function ResultForm({ call }: { call: ToolItem }) {
  const text = useSignal("");
  const submit = async () => {
    const id = openId.value;
    if (id !== undefined) await act(() => client.answer(id, [{ tool_use_id: call.id, content: text.value }]));
  };
  return (
    <form
      class="approval"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <InputView name={call.name} input={call.input} text={call.inputText} />
      <label>
        {t("resultFor", call.name)}
        <textarea rows={2} dir="auto" value={text} onInput={(event) => (text.value = event.currentTarget.value)} />
      </label>
      <div class="row">
        <button type="submit" class="primary">
          {t("submit")}
        </button>
      </div>
    </form>
  );
}
