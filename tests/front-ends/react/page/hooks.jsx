// A page with the hooks: a list of threads, and the open conversation.

import { TwostepProvider, useThreads, useTwostep } from "@twostep/react";
import { useState } from "react";
import { client, openId, settings, setOpenId, show } from "./shared.js";

const tools = { lookup: ({ word }) => ({ meaning: `a ${word}` }) };

function Call({ call, approval, now }) {
  if (call.awaits === "client") return <li data-call={call.name}>{call.name}</li>;
  const edited = { path: "b.txt", content: "edited" };
  return (
    <li data-call={call.name}>
      {approval?.display}
      <button onClick={() => now.decide(call, { decision: "allow" })}>Allow</button>
      <button onClick={() => now.decide(call, { decision: "allow", input: edited })}>Allow edited</button>
      <button onClick={() => now.decide(call, { decision: "deny", message: "Not now." })}>Deny</button>
    </li>
  );
}

function UserMessage({ message, now, open }) {
  const text = message.content.map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("");
  return (
    <li data-role="user" data-state={message.state}>
      <p>{text}</p>
      <button onClick={() => now.edit(message.id, "Edited").then(open)}>Edit</button>
      <button onClick={() => now.regenerate(message.id).then(open)}>Regenerate</button>
      {message.state === "failed" && <button onClick={() => now.resend(message.id)}>Send again</button>}
    </li>
  );
}

function Part({ part }) {
  if (part.kind === "tool") {
    const result = part.result?.map((block) => block.text).join("");
    return <code data-tool={part.name} data-state={part.state} data-input={part.inputText}>{result}</code>;
  }
  return <span data-part={part.kind}>{part.kind === "error" ? part.message : part.text}</span>;
}

function Conversation({ id, open }) {
  const now = useTwostep(id, { tools });
  const [text, setText] = useState("");
  const send = (event) => {
    event.preventDefault();
    now.send(text).catch(() => undefined);
    setText("");
  };
  const sendUpload = async () => {
    const bytes = Uint8Array.from(atob(settings.pixel), (char) => char.charCodeAt(0));
    const { id } = await now.upload(new File([bytes], "pixel.png", { type: "image/png" }));
    await now.send([{ type: "text", text: "Which image?" }, { type: "image", source: { type: "file", file_id: id } }]);
  };
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: settings.pixel } };
  return (
    <main data-status={now.isLoading ? "loading" : now.status} data-connection={now.connection} data-error={now.error?.code}>
      <ol>
        {now.messages.map((message) =>
          message.role === "user" ? (
            <UserMessage key={message.id} message={message} now={now} open={open} />
          ) : (
            <li key={message.id} data-role="assistant">
              {message.parts.map((part) => <Part key={part.id} part={part} />)}
              <button onClick={() => now.retry(message.runId)}>Retry</button>
            </li>
          ))}
      </ol>
      <ul>{now.pending.map((call) => <Call key={call.id} call={call} approval={now.approvals.get(call.id)} now={now} />)}</ul>
      <form onSubmit={send}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        <button>Send</button>
      </form>
      <button onClick={() => now.stop()}>Stop</button>
      <button onClick={() => now.send([{ type: "text", text: "Which image?" }, image])}>Send image</button>
      <button onClick={sendUpload}>Upload</button>
    </main>
  );
}

function Threads({ open }) {
  const list = useThreads({ interval: 200 });
  return (
    <nav>
      <button onClick={() => list.create(settings.session).then(open)}>New</button>
      {list.threads.map(({ id, title }) => (
        <p key={id} data-thread={id}>
          {title ?? "untitled"}
          <button onClick={() => list.rename(id, "Renamed")}>Rename</button>
          <button onClick={() => list.archive(id)}>Archive</button>
          <button onClick={() => list.remove(id)}>Delete</button>
        </p>
      ))}
    </nav>
  );
}

function Page() {
  const [id, setId] = useState(openId());
  const open = (session) => {
    setOpenId(session.id);
    setId(session.id);
  };
  return (
    <TwostepProvider client={client}>
      {settings.list && <Threads open={open} />}
      {id && <Conversation id={id} open={open} />}
    </TwostepProvider>
  );
}

show(<Page />);
