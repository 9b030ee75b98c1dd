// A chat of the AI SDK without a framework, which React, Vue and Svelte extend in the same way.

import * as ai5 from "ai5";
import * as ai6 from "ai6";
import * as ai7 from "ai7";

export const versions = [
  { v: 5, ai: ai5 },
  { v: 6, ai: ai6 },
  { v: 7, ai: ai7 },
];

class ChatState {
  status = "ready";
  error = undefined;
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => {
    this.messages = [...this.messages, message];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = this.messages.map((own, at) => (at === index ? structuredClone(message) : own));
  };
  snapshot = (value) => structuredClone(value);
}

/** A chat whose transport sends the requests of `useChat` to the service. */
export function makeChat({ v, ai }, { url, headers }, { id = crypto.randomUUID(), messages = [], body, ...rest } = {}) {
  class Chat extends ai.AbstractChat {
    constructor(init) {
      super({ ...init, state: new ChatState(messages) });
    }
  }
  const transport = new ai.DefaultChatTransport({
    api: `${url}/ai-sdk/chat`,
    headers,
    body,
    prepareSendMessagesRequest: ({ api, body, id, messages, trigger, messageId }) => ({
      api: `${api}?v=${v}`,
      body: { ...body, id, messages, trigger, messageId },
    }),
    prepareReconnectToStreamRequest: ({ api, id }) => ({ api: `${api}/${encodeURIComponent(id)}/stream?v=${v}` }),
  });
  const chunks = [];
  const errors = [];
  const chat = new Chat({ id, transport, onData: (part) => chunks.push(part), onError: (error) => errors.push(error), ...rest });
  return Object.assign(chat, { data: chunks, errors });
}

/** The messages of the history. */
export async function history({ v }, service, id) {
  const response = await fetch(`${service.url}/ai-sdk/chat/${id}/messages?v=${v}`, { headers: service.headers });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return await response.json();
}

/** The messages without what only one of the two sides knows. */
export function comparable(messages) {
  const plain = JSON.parse(JSON.stringify(messages));
  for (const message of plain) {
    for (const part of message.parts) {
      // Ids of reasoning and the client's own notes on calls.
      if (part.type === "reasoning") delete part.id;
      delete part.title;
      if (part.approval?.approved === undefined) delete part.approval;
    }
  }
  return plain;
}

export const texts = (message) =>
  (message?.parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
export const tools = (message) => message.parts.filter((part) => part.type === "dynamic-tool");
export const last = (chat) => chat.messages.at(-1);
