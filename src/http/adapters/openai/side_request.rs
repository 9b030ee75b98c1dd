//! Requests that chat pages send on the side of a conversation: for titles, tags, follow-up questions and
//! search queries. They are no turns of the conversation.

/// The suffix of a model's name with which every request is one on the side.
const SUFFIX: &str = "-title";

/// The beginnings of the prompts of Open WebUI, of which the other part must be there, too.
const PAIRS: [(&str, &str); 6] = [
    ("### Task:", "### Chat History:"),
    ("### Task:", "<chat_history>"),
    // Completions of what the user types, and prompts for images.
    ("### Task:", "### Output:"),
    ("Your task is to reflect the speaker's likely facial expression", "Message:"),
    (
        "You have been provided with a set of responses from various models",
        "Responses from models:",
    ),
    // Titles of LibreChat.
    ("Analyze this conversation and provide:", "title"),
];

/// The beginnings of the prompts of LibreChat.
const BEGINNINGS: [&str; 3] = [
    "Provide a concise, 5-word-or-less title for the conversation",
    "Please generate a concise title (max 40 characters) for a conversation that starts with",
    "Write a concise title for this conversation",
];

/// The form of Open WebUI's prompts, and what follows if the prompt is a turn: the text of files, of a
/// knowledge base or of a web search, with which the user's message is answered.
const TASK: &str = "### Task:";
const ANSWER: &str = "Respond to the user query using the provided context";

/// A choice of tools by Open WebUI, whose prompt is a system message.
const TOOL_CHOICE: (&str, &str) =
    ("Available Tools:", "Your task is to choose and return the correct tool(s)");

/// Returns true if a request is one on the side.
pub(super) fn is_side_request(model: &str, system: &str, message: &str) -> bool {
    let has = |text: &str, (beginning, other): (&str, &str)| {
        text.starts_with(beginning) && text.contains(other)
    };
    let message = message.trim_start();
    let task = message.strip_prefix(TASK).map(str::trim_start);
    let is_answer = task.is_some_and(|task| task.starts_with(ANSWER));
    model.ends_with(SUFFIX)
        || (!is_answer && PAIRS.iter().any(|pair| has(message, *pair)))
        || BEGINNINGS.iter().any(|beginning| message.starts_with(beginning))
        || has(system.trim_start(), TOOL_CHOICE)
}

/// The name of the model without the suffix.
pub(super) fn model_name(model: &str) -> &str {
    model.strip_suffix(SUFFIX).unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompts_of_chat_pages_are_recognized() {
        let tags =
            "### Task:\nGenerate 1-3 broad tags.\n### Chat History:\n<chat_history>\nUSER: Hi";
        let completion = "### Task:\nYou are an autocompletion system.\n### Output:\nJSON";
        let title =
            "Provide a concise, 5-word-or-less title for the conversation, using its language.";
        for message in [tags, completion, title] {
            assert!(is_side_request("coder", "", message), "{message}");
        }
        let tools =
            "Available Tools: []\n\nYour task is to choose and return the correct tool(s) from it.";
        assert!(is_side_request("coder", tools, "Query: Hi"));
        assert!(is_side_request("coder-title", "", "Hi"));
        assert_eq!((model_name("coder-title"), model_name("coder")), ("coder", "coder"));
    }

    #[test]
    fn a_message_with_the_text_of_files_is_a_turn() {
        let context = "<context>\n### Chat History:\n<source id=\"1\">Plan</source>\n</context>\n";
        let rules = "### Guidelines:\n- Cite.\n\n### Output:\nProvide a clear response.";
        for space in ["\n", " ", "\n\n"] {
            let message = format!(
                "### Task:{space}Respond to the user query using the provided context, with \
                 citations.\n\n{rules}\n\n{context}\nWhat is the plan?"
            );
            assert!(!is_side_request("coder", "", &message), "{message}");
            assert!(is_side_request("coder-title", "", &message));
        }
    }

    #[test]
    fn a_user_can_ask_for_a_title() {
        for message in [
            "Generate a title for my essay.",
            "### Task: write a test",
            "Analyze this conversation",
        ] {
            assert!(!is_side_request("coder", "Be brief.", message), "{message}");
        }
    }
}
