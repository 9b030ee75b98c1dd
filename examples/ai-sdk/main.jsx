// A chat with useChat. The address has the id of the chat: a reload continues the conversation, also in mid-answer.

import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";
import { isAnswered } from "./is-answered.js";

const api = "/ai-sdk/chat";
// In the mode "default", write_file asks for an approval.
const settings = { tools: ["read_file", "list_files", "get_time", "write_file"], permission_mode: "default" };

async function load(id) {
  const response = await fetch(`${api}/${id}/messages`);
  return response.ok ? await response.json() : []; // 404: a chat without a message yet
}

function Part({ part, decide }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type !== "dynamic-tool") return null;
  return (
    <p>
      <code>{part.toolName} {JSON.stringify(part.input)}: {part.state}</code>
      {part.state === "approval-requested" && (
        <>
          <button onClick={() => decide({ id: part.approval.id, approved: true })}>Allow</button>
          <button onClick={() => decide({ id: part.approval.id, approved: false })}>Deny</button>
        </>
      )}
    </p>
  );
}

function Chat({ id, initial }) {
  const [text, setText] = useState("");
  const { messages, sendMessage, status, stop, error, addToolApprovalResponse } = useChat({
    id,
    messages: initial,
    resume: true,
    transport: new DefaultChatTransport({ api, body: { settings } }),
    sendAutomaticallyWhen: isAnswered,
  });
  const send = (event) => {
    event.preventDefault();
    void sendMessage({ text });
    setText("");
  };
  const end = async () => {
    await fetch(`${api}/${id}/stop`, { method: "POST" });
    await stop();
  };
  return (
    <>
      {messages.map((message) => (
        <section key={message.id} data-role={message.role}>
          {message.parts.map((part, index) => <Part key={index} part={part} decide={addToolApprovalResponse} />)}
        </section>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={send}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {status === "ready" || status === "error" ? <button>Send</button> : <button type="button" onClick={end}>Stop</button>}
      </form>
    </>
  );
}

const url = new URL(location.href);
const id = url.searchParams.get("id") ?? crypto.randomUUID();
url.searchParams.set("id", id);
history.replaceState(null, "", url);
createRoot(document.querySelector("#root")).render(<Chat id={id} initial={await load(id)} />);
