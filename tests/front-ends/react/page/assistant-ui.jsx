// A page with the primitives of assistant-ui.

import {
  AssistantRuntimeProvider, ComposerPrimitive, ActionBarPrimitive, MessagePrimitive, ThreadListItemPrimitive,
  SimpleImageAttachmentAdapter, ThreadListPrimitive, ThreadPrimitive,
} from "@assistant-ui/react";
import { TwostepProvider, useThreads, useTwostep } from "@twostep/react";
import { useTwostepRuntime } from "@twostep/react/assistant-ui";
import { useState } from "react";
import { client, openId, settings, setOpenId, show } from "./shared.js";

/** assistant-ui allows or denies a call as it is: the hook of the same session sends another input. */
function AllowEdited({ toolCallId }) {
  const { pending, decide } = useTwostep(openId());
  const call = pending.find(({ id }) => id === toolCallId);
  const input = { path: "b.txt", content: "edited" };
  return call && <button onClick={() => decide(call, { decision: "allow", input })}>Allow edited</button>;
}

const Tool = ({ toolCallId, toolName, argsText, result, isError, approval, artifact, status, addResult, respondToApproval }) => (
  <code data-tool={toolName} data-state={status.type} data-input={argsText} data-error={isError} data-denied={approval?.approved === false}>
    {result}
    {approval && approval.approved === undefined && (
      <span>
        {artifact?.display}
        <button onClick={() => respondToApproval({ approved: true })}>Allow</button>
        <button onClick={() => respondToApproval({ approved: false, reason: "Not now." })}>Deny</button>
        <AllowEdited toolCallId={toolCallId} />
      </span>
    )}
    {toolName === "lookup" && result === undefined && <button onClick={() => addResult({ meaning: "a ledger" })}>Answer</button>}
  </code>
);

const UserMessage = () => (
  <MessagePrimitive.Root data-role="user">
    <MessagePrimitive.Parts components={{ Image: ({ image }) => <img src={image} alt="sent" /> }} />
    <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
  </MessagePrimitive.Root>
);
const EditComposer = () => (
  <ComposerPrimitive.Root>
    <ComposerPrimitive.Input aria-label="Edited" />
    <ComposerPrimitive.Send>Save</ComposerPrimitive.Send>
  </ComposerPrimitive.Root>
);
const AssistantMessage = () => (
  <MessagePrimitive.Root data-role="assistant">
    <MessagePrimitive.Parts components={{ tools: { Override: Tool } }} />
    <MessagePrimitive.Error><i data-part="error">failed</i></MessagePrimitive.Error>
    <ActionBarPrimitive.Reload>Regenerate</ActionBarPrimitive.Reload>
  </MessagePrimitive.Root>
);
const ThreadItem = () => (
  <ThreadListItemPrimitive.Root data-thread="">
    <ThreadListItemPrimitive.Trigger><ThreadListItemPrimitive.Title fallback="untitled" /></ThreadListItemPrimitive.Trigger>
    <ThreadListItemPrimitive.Archive>Archive</ThreadListItemPrimitive.Archive>
  </ThreadListItemPrimitive.Root>
);

const adapters = { attachments: new SimpleImageAttachmentAdapter() };

function Chat() {
  const [id, setId] = useState(openId());
  const open = (id) => {
    setOpenId(id);
    setId(id);
  };
  const threads = useThreads({ interval: 200 });
  const onFork = (session) => open(session.id);
  const runtime = useTwostepRuntime(id, { threads, settings: settings.session, onSwitch: open, onFork, adapters });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      {settings.list && (
        <ThreadListPrimitive.Root>
          <ThreadListPrimitive.New>New</ThreadListPrimitive.New>
          <ThreadListPrimitive.Items components={{ ThreadListItem: ThreadItem }} />
        </ThreadListPrimitive.Root>
      )}
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages components={{ UserMessage, EditComposer, AssistantMessage }} />
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
          <ComposerPrimitive.AddAttachment>Attach</ComposerPrimitive.AddAttachment>
          <ComposerPrimitive.Attachments components={{ Attachment: () => <b data-attached="">attached</b> }} />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

show(<TwostepProvider client={client}><Chat /></TwostepProvider>);
