/** A tool call: name, state, duration, input, output and the conversation of its sub-agent. */

import type { ContentBlock, ToolItem } from "@twostep/client";
import { useState } from "preact/hooks";
import { DiffView, changeOf } from "../approvals/DiffView";
import { Markdown } from "../markdown/Markdown";
import { approvals } from "../state/approvals";
import { follow, hrefOf } from "../state/route";
import { milliseconds, named, t } from "../text/text";

const signs: Record<ToolItem["state"], string> = {
  streaming: "…",
  running: "●",
  awaiting_approval: "!",
  awaiting_client: "!",
  denied: "⃠",
  done: "✓",
  failed: "✕",
};

export function ToolCard({ tool }: { tool: ToolItem }) {
  // The body of a closed card is not in the document: a long conversation has many of them.
  const [isOpen, setOpen] = useState(false);
  // A call of its sub-agent waits for the user.
  const isAsking = approvals.value.some(({ sessionId }) => sessionId === tool.subAgent?.sessionId);
  const state = isAsking && tool.state === "running" ? "awaiting_approval" : tool.state;
  return (
    <details
      class={`tool tool-${state}`}
      onToggle={(event) => setOpen(event.currentTarget.open)}
      data-call={tool.id}
    >
      <summary>
        <span class="sign" aria-hidden="true">
          {signs[state]}
        </span>
        <code class="tool-name">{tool.name}</code>
        <span class="tool-subject" dir="auto">
          {subject(tool)}
        </span>
        <span class="tool-state">
          {tool.durationMs !== undefined && `${milliseconds(tool.durationMs)} · `}
          {named("tool_", state)}
        </span>
      </summary>
      {isOpen && <Body tool={tool} />}
    </details>
  );
}

/** The part of the input that says the most in one line. */
function subject({ input }: ToolItem): string {
  if (input === undefined) return "";
  for (const name of ["description", "command", "file_path", "path", "url", "query", "pattern", "prompt"]) {
    const value = input[name];
    if (typeof value === "string") return value.split("\n")[0]?.slice(0, 160) ?? "";
  }
  const text = Object.values(input).find((value) => typeof value === "string");
  return typeof text === "string" ? (text.split("\n")[0]?.slice(0, 160) ?? "") : "";
}

function Body({ tool }: { tool: ToolItem }) {
  return (
    <div class="tool-body">
      <InputView name={tool.name} input={tool.input} text={tool.inputText} />
      {tool.subAgent !== undefined && <SubAgent agent={tool.subAgent} />}
      {tool.result !== undefined && (
        <>
          <p class="label">{t("output")}</p>
          <Output blocks={tool.result} />
        </>
      )}
    </div>
  );
}

interface InputProps {
  name: string;
  input: Record<string, unknown> | undefined;
  /** The JSON text, which is incomplete while it streams. */
  text: string;
}

/** The input of a call: a change as a diff, a command as such, anything else as JSON. */
export function InputView({ name, input, text }: InputProps) {
  const change = input === undefined ? undefined : changeOf(name, input);
  if (change !== undefined) {
    return (
      <>
        <p class="label">{t("changes")}</p>
        <DiffView patch={change} />
      </>
    );
  }
  const command = input?.command;
  const shown = typeof command === "string" ? command : input === undefined ? text : JSON.stringify(input, null, 2);
  return (
    <>
      <p class="label">{typeof command === "string" ? t("command") : t("input")}</p>
      <pre tabIndex={0} dir="ltr">
        {shown}
      </pre>
    </>
  );
}

function Output({ blocks }: { blocks: ContentBlock[] }) {
  const text = blocks.map((block) => block.text ?? `[${block.type}]`).join("\n");
  if (text === "") return <p class="note">{t("noOutput")}</p>;
  return (
    <pre tabIndex={0} dir="auto">
      {text}
    </pre>
  );
}

type Agent = NonNullable<ToolItem["subAgent"]>;

function SubAgent({ agent }: { agent: Agent }) {
  return (
    <section class="sub-agent" aria-label={t("subAgent")}>
      <p>
        <strong>{t("subAgent")}</strong>{" "}
        <a href={hrefOf(agent.sessionId)} onClick={follow(agent.sessionId)}>
          {t("openSession")}
        </a>
      </p>
      {agent.conversation.items.map((item) => {
        if (item.kind === "text") return <Markdown key={item.id} text={item.text} />;
        if (item.kind === "tool") return <ToolCard key={item.id} tool={item} />;
        return null;
      })}
    </section>
  );
}
