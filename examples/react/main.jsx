// A chat with the hooks of @twostep/react: a list of conversations, and the open one.

import { Twostep } from "@twostep/client";
import { TwostepProvider, useThreads, useTwostep } from "@twostep/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const client = new Twostep({ baseUrl: "/" });
// In the mode "default", write_file asks for an approval.
const settings = { tools: ["read_file", "list_files", "get_time", "write_file"], permission_mode: "default" };

function Threads({ selected, select }) {
  const { threads, create, remove, hasMore, loadMore } = useThreads();
  return (
    <nav>
      <button onClick={async () => select((await create(settings)).id)}>New conversation</button>
      {threads.map(({ id, title, status }) => (
        <p key={id} aria-current={id === selected}>
          <button onClick={() => select(id)}>{title ?? id.slice(-6)}</button> {status}
          <button onClick={() => remove(id)}>Delete</button>
        </p>
      ))}
      {hasMore && <button onClick={loadMore}>More</button>}
    </nav>
  );
}

function Part({ part }) {
  if (part.kind === "tool") return <p><code>{part.name} {part.inputText}: {part.state}</code></p>;
  if (part.kind === "error") return <p role="alert">{part.message}</p>;
  return <p className={part.kind}>{part.text}</p>;
}

function Conversation({ id, select }) {
  const now = useTwostep(id);
  const [text, setText] = useState("");
  const send = (event) => {
    event.preventDefault();
    now.send(text).catch(() => undefined); // the message is shown as failed
    setText("");
  };
  const edit = async (message) => {
    const content = prompt("New text", message.content.map((block) => block.text).join(""));
    if (content !== null) select((await now.edit(message.id, content)).id);
  };
  return (
    <main data-status={now.status}>
      {now.connection === "waiting" && <p role="status">The connection is lost. The page reconnects.</p>}
      {now.messages.map((message) =>
        message.role === "user" ? (
          <section key={message.id} data-role="user">
            <p>{message.content.map((block) => block.text)}</p>
            {message.state === "failed"
              ? <button onClick={() => now.resend(message.id)}>Send again</button>
              : <button onClick={() => edit(message)}>Edit</button>}
          </section>
        ) : (
          <section key={message.id} data-role="assistant">{message.parts.map((part) => <Part key={part.id} part={part} />)}</section>
        ))}
      {now.pending.map((call) => (
        <p key={call.id}>
          Allow {call.name}? <code>{now.approvals.get(call.id)?.display}</code>
          <button onClick={() => now.decide(call, { decision: "allow" })}>Allow</button>
          <button onClick={() => now.decide(call, { decision: "deny" })}>Deny</button>
        </p>
      ))}
      <form onSubmit={send}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        <button>Send</button>
        {now.status !== "idle" && <button type="button" onClick={now.stop}>Stop</button>}
      </form>
    </main>
  );
}

/** The open conversation is a part of the address, for reloads. */
function Page() {
  const [id, setId] = useState(location.hash.slice(1) || undefined);
  const select = (id) => {
    location.hash = id;
    setId(id);
  };
  return (
    <>
      <Threads selected={id} select={select} />
      {id && <Conversation key={id} id={id} select={select} />}
    </>
  );
}

createRoot(document.querySelector("#root")).render(<TwostepProvider client={client}><Page /></TwostepProvider>);
