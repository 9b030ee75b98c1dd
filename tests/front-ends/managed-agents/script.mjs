// The script of the model: the text of the user selects a conversation.

const text = (text) => ({ type: "text", text });
const call = (name, input) => ({ type: "tool_use", name, input });
const says = (...content) => ({ content });

export const SLOW = Array.from({ length: 40 }, (_, index) => `word${index} `).join("");

const write = says(text("I will write."), call("Write", { file_path: "a.txt", content: "hello" }));

export const script = {
  conversations: [
    {
      when: "two tools",
      replies: [
        says(call("Glob", { pattern: "*.txt" }), call("Read", { file_path: "missing.txt" })),
        says(text("Done with both.")),
      ],
    },
    { when: "image", replies: [says(text("A nice picture."))] },
    { when: "write", replies: [write, says(text("It said: {{results}}"))] },
    { when: "look up", replies: [says(call("lookup", { word: "ledger" })), says(text("It means {{results}}"))] },
    { when: "slow", replies: [{ ...says(text(SLOW)), pace_ms: 25, chunk: 7 }] },
    { when: "break", replies: [{ status: 400, error: { type: "invalid_request_error", message: "the model broke" } }] },
    { replies: [says(text("You said {{user}}."))] },
  ],
};
