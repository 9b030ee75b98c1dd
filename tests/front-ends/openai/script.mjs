// The script of the model: the text of the user selects a conversation.

const text = (text) => ({ type: "text", text });
const call = (name, input) => ({ type: "tool_use", name, input });
const says = (...content) => ({ content });

export const SLOW = Array.from({ length: 40 }, (_, index) => `word${index} `).join("");

export const script = {
  conversations: [
    { when: "### Task:", replies: [says(text('{ "title": "A title" }'))] },
    { when: "the time", replies: [says(text("I look."), call("get_time", { timezone: "Europe/Oslo" })), says(text("It is late."))] },
    {
      when: "two tools",
      replies: [says(call("get_time", { timezone: "Europe/Oslo" }), call("read_file", { path: "missing.txt" })), says(text("Done with both."))],
    },
    {
      when: "look up",
      replies: [says(call("lookup", { word: "ledger" }), call("lookup", { word: "journal" })), says(text("They mean {{results}}"))],
    },
    { when: "Write a note", replies: [says(call("write_file", { path: "note.txt", content: "A note." })), says(text("Noted."))] },
    { when: "break", replies: [says(text("I begin."), call("get_time", { timezone: "Europe/Oslo" })), { status: 400, error: { type: "invalid_request_error", message: "the model broke" } }] },
    { when: "slow", replies: [{ ...says(text(SLOW)), pace_ms: 25, chunk: 7 }] },
    { when: "image", replies: [says(text("A nice picture."))] },
    { replies: [says(text("You said {{user}}."))] },
  ],
};
