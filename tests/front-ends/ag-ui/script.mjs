// The script of the model: the text of the user selects a conversation.

const text = (text) => ({ type: "text", text });
const call = (name, input) => ({ type: "tool_use", name, input });
const says = (...content) => ({ content });

export const SLOW = Array.from({ length: 40 }, (_, index) => `word${index} `).join("");

export const script = {
  conversations: [
    {
      when: "two tools",
      replies: [
        says(
          { type: "thinking", thinking: "Let me think." },
          text("I will look."),
          call("get_time", { timezone: "Europe/Oslo" }),
          call("read_file", { path: "missing.txt" }),
        ),
        says(text("Done with both.")),
      ],
    },
    {
      when: "write",
      replies: [says(text("I will write."), call("write_file", { path: "a.txt", content: "hello" })), says(text("It said: {{results}}"))],
    },
    { when: "look up", replies: [says(call("lookup", { word: "ledger" })), says(text("It means {{results}}"))] },
    { when: "break", replies: [says(text("I begin."), call("get_time", { timezone: "Europe/Oslo" })), { status: 400, error: { type: "invalid_request_error", message: "the model broke" } }] },
    { when: "image", replies: [says(text("A nice picture."))] },
    { when: "slow", replies: [{ ...says(text(SLOW)), pace_ms: 25, chunk: 7 }] },
    { replies: [says(text("You said {{user}}."))] },
  ],
};
