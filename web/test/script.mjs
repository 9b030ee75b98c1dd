// What the simulator replies to the messages of the tests. All other messages get its demonstration.

const paragraphs = Array.from({ length: 40 }, (_, index) => `Paragraph ${index + 1} has **some** text.`).join("\n\n");

/** Texts that must run nothing, load nothing and leave the page as it is. */
export const attacks = [
  "<script>window.hacked = 1</script>",
  '<img src=x onerror="window.hacked = 1">',
  '<svg onload="window.hacked = 1"><animate onbegin="window.hacked = 1"/></svg>',
  '<iframe srcdoc="<script>parent.hacked = 1</script>"></iframe>',
  '<a href="javascript:window.hacked = 1">tag</a>',
  "[link](javascript:window.hacked=1)",
  "[link](JaVaScRiPt:window.hacked=1)",
  "[link](&#106;avascript:window.hacked=1)",
  "[link](data:text/html,<script>parent.hacked=1</script>)",
  "[link](vbscript:msgbox)",
  "[link](//other.example/path)",
  '![image](https://images.example/secret.png "title")',
  '![x](x" onerror="window.hacked=1)',
  '<style>body { display: none } @import "https://other.example/style.css";</style>',
  '<form action="https://other.example"><input name="key"><button>Send</button></form>',
  '<base href="https://other.example/">',
  '<meta http-equiv="refresh" content="0; url=https://other.example/">',
  '<object data="https://other.example/x"></object><embed src="https://other.example/x">',
  '<link rel="stylesheet" href="https://other.example/style.css">',
  '```html" onmouseover="window.hacked=1\n<script>window.hacked = 1</script>\n```',
  '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.hacked=1&gt;">',
  '<noscript><p title="</noscript><img src=x onerror=window.hacked=1>">',
  '<details open ontoggle="window.hacked = 1">x</details>',
  '<div id="page"></div><div id="message" class="notice" style="position: fixed; inset: 0">cover</div>',
  "[reference]: javascript:window.hacked=1\n\n[reference]",
  "<https://user:password@other.example/?q=javascript:alert(1)>",
].join("\n\n");

const say = (text, delivery = {}) => ({ content: [{ type: "text", text }], ...delivery });
const call = (name, input) => ({ type: "tool_use", name, input });

export const script = {
  conversations: [
    { when: "write slowly", replies: [say(paragraphs, { pace_ms: 25, chunk: 8 })] },
    {
      when: "think",
      replies: [
        {
          content: [
            { type: "thinking", thinking: "First I *consider* it." },
            { type: "text", text: "I have thought." },
          ],
        },
      ],
    },
    {
      when: "show everything",
      replies: [
        say(
          "# Title\n\nA [link](https://example.com/) and `code`.\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n\nمرحبا بالعالم",
        ),
      ],
    },
    {
      when: "read a part",
      replies: [{ content: [call("read_file", { path: "notes.txt", limit: 5 })] }, say("I read it.")],
    },
    { when: "hostile", replies: [say(attacks)] },
    {
      when: "two at once",
      replies: [
        { content: [call("list_files", { path: "." }), call("get_time", { timezone: "Europe/Oslo" })] },
        say("Both are done."),
      ],
    },
    {
      when: "plan it",
      replies: [
        {
          content: [
            call("TodoWrite", {
              todos: [
                { id: "1", content: "Read the file", status: "completed" },
                { id: "2", content: "Write the file", status: "in_progress" },
              ],
            }),
          ],
        },
        say("Planned."),
      ],
    },
    { when: "break", replies: [{ status: 400, error: { type: "invalid_request_error", message: "planned failure" } }] },
    { when: "model is down", replies: [{ status: 529 }] },
    { when: "overloaded", replies: [say("Here I am.", { fail_first: [{ status: 529 }] })] },
    {
      when: "delegate",
      replies: [
        {
          content: [call("Task", { description: "write a file", prompt: "please note it", subagent_type: "general" })],
        },
        say("Delegated."),
      ],
    },
    {
      when: "ask another one",
      replies: [
        { content: [call("Task", { description: "think", prompt: "think about it", subagent_type: "general" })] },
        say(paragraphs, { pace_ms: 25, chunk: 8 }),
      ],
    },
    {
      when: "please note it",
      replies: [{ content: [call("write_file", { path: "sub.txt", content: "from below" })] }, say("Noted.")],
    },
    {
      when: "note",
      replies: [
        { content: [call("write_file", { path: "notes.txt", content: "hello\n" })] },
        say("I wrote it: {{result.0}}"),
      ],
    },
  ],
};
