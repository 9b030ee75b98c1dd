// A chat with the primitives of assistant-ui: a list of conversations, messages, approvals, edited messages.

import {
  ActionBarPrimitive, AssistantRuntimeProvider, ComposerPrimitive, MessagePrimitive, ThreadListItemPrimitive,
  ThreadListPrimitive, ThreadPrimitive,
} from "@assistant-ui/react";
import { Twostep } from "@twostep/client";
import { TwostepProvider, useThreads } from "@twostep/react";
import { useTwostepRuntime } from "@twostep/react/assistant-ui";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const client = new Twostep({ baseUrl: "/" });
// In the mode "default", write_file asks for an approval.
const settings = { tools: ["read_file", "list_files", "get_time", "write_file"], permission_mode: "default" };

function Tool({ toolName, argsText, result, approval, artifact, respondToApproval }) {
  return (
    <div>
      <code>{toolName} {argsText}</code>
      <pre>{result}</pre>
      {approval && approval.approved === undefined && (
        <p>
          <code>{artifact?.display}</code>
          <button onClick={() => respondToApproval({ approved: true })}>Allow</button>
          <button onClick={() => respondToApproval({ approved: false })}>Deny</button>
        </p>
      )}
    </div>
  );
}

const UserMessage = () => (
  <MessagePrimitive.Root data-role="user">
    <MessagePrimitive.Parts />
    <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
  </MessagePrimitive.Root>
);
const EditComposer = () => (
  <ComposerPrimitive.Root>
    <ComposerPrimitive.Input aria-label="New text" />
    <ComposerPrimitive.Send>Save</ComposerPrimitive.Send>
    <ComposerPrimitive.Cancel>Cancel</ComposerPrimitive.Cancel>
  </ComposerPrimitive.Root>
);
const AssistantMessage = () => (
  <MessagePrimitive.Root data-role="assistant">
    <MessagePrimitive.Parts components={{ tools: { Override: Tool } }} />
    <ActionBarPrimitive.Reload>Regenerate</ActionBarPrimitive.Reload>
  </MessagePrimitive.Root>
);
const Thread = () => (
  <ThreadListItemPrimitive.Root>
    <ThreadListItemPrimitive.Trigger><ThreadListItemPrimitive.Title fallback="Conversation" /></ThreadListItemPrimitive.Trigger>
    <ThreadListItemPrimitive.Archive>Archive</ThreadListItemPrimitive.Archive>
  </ThreadListItemPrimitive.Root>
);

/** The open conversation is a part of the address, for reloads. */
function Chat() {
  const [id, setId] = useState(location.hash.slice(1) || undefined);
  const open = (id) => {
    location.hash = id;
    setId(id);
  };
  const threads = useThreads();
  const runtime = useTwostepRuntime(id, { threads, settings, onSwitch: open, onFork: (session) => open(session.id) });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadListPrimitive.Root>
        <ThreadListPrimitive.New>New conversation</ThreadListPrimitive.New>
        <ThreadListPrimitive.Items components={{ ThreadListItem: Thread }} />
      </ThreadListPrimitive.Root>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages components={{ UserMessage, EditComposer, AssistantMessage }} />
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.querySelector("#root")).render(<TwostepProvider client={client}><Chat /></TwostepProvider>);
