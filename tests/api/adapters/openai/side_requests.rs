//! Requests that chat pages send on the side of a conversation.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{assistant, chunks, complete, post, runs, session_of, text, user};
use crate::support::{TestApp, replies, says};

const TITLE: &str = "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Output:\nJSON format: { \"title\": \"your concise title here\" }\n### Chat History:\n<chat_history>\nUSER: Hello\n</chat_history>";
const LIBRECHAT: &str = "Provide a concise, 5-word-or-less title for the conversation, using its same language, with no punctuation.\n\nConversation:\nUser: Hello";

async fn sessions(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_no_turn_of_the_conversation_and_leaves_no_session() {
    let app = TestApp::start(replies(&[says("Hello there.")])).await;
    let named = json!({ "metadata": { "session_id": "chat-1" } });
    let first = complete(&app, &[user("Hello")], named.clone()).await;
    let session = first["session"].as_str().unwrap();
    for (prompt, is_stream) in [(TITLE, false), (LIBRECHAT, true)] {
        let others = json!({ "stream": is_stream, "max_tokens": 50, "model": "default" });
        let request = post(&app, &[user(prompt)], others).header("x-openwebui-chat-id", "chat-1");
        let response = request.send().await.unwrap();
        assert_eq!((response.status().as_u16(), session_of(&response)), (200, String::new()));
        let body = response.text().await.unwrap();
        if is_stream {
            assert!(chunks(&body).len() > 1);
        } else {
            assert_eq!(text(&serde_json::from_str(&body).unwrap()), "Hello there.");
        }
    }
    let named =
        complete(&app, &[user("A title, please")], json!({ "model": "default-title" })).await;
    assert_eq!(named["session"], "");
    assert_eq!(runs(&app, session).await.len(), 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    while sessions(&app).await.len() > 1 {
        assert!(Instant::now() < deadline, "a session is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The tools of the service are not offered for a title.
    let sent: Value = app.upstream().body(1);
    assert!(sent.get("tools").is_none_or(|tools| *tools == json!([])), "{sent}");
}

/// The beginnings and ends of the prompts with which Open WebUI and LibreChat ask on the side.
fn prompts() -> Vec<String> {
    let history = "### Chat History:\n<chat_history>\nUSER: Hello\n</chat_history>";
    let tasks = [
        ("Generate a concise, 3-5 word title with an emoji summarizing the chat history.", "title"),
        ("Generate 1-3 broad tags categorizing the main themes of the chat history.", "tags"),
        ("Suggest 3-5 relevant follow-up questions that the user might ask next.", "follow_ups"),
        ("Analyze the chat history to determine the necessity of search queries.", "queries"),
        ("Generate a detailed prompt for am image generation task.", "prompt"),
    ];
    let of_history = |(task, member): &(&str, &str)| {
        format!("### Task:\n{task}\n\n### Output:\nJSON: {{ \"{member}\": [] }}\n\n{history}")
    };
    let mut prompts: Vec<String> = tasks.iter().map(of_history).collect();
    prompts.extend(
        [
            "### Task:\nYou are an autocompletion system. Continue the text in `<text>`.\n### **Output Rules**:\n- JSON only\n\n### Context:\n<chat_history>\n</chat_history>\n<type>General</type>\n<text>Hel</text>\n#### Output:\n",
            "Your task is to reflect the speaker's likely facial expression through a fitting emoji.\n\nMessage: ```Hello```",
            LIBRECHAT,
            "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in the detected language\n\nUser: Hello\nAI: Hello there.",
        ]
        .map(str::to_owned),
    );
    prompts
}

#[tokio::test(flavor = "multi_thread")]
async fn no_prompt_of_a_chat_page_becomes_a_turn_and_a_message_with_files_does() {
    let app = TestApp::start(replies(&[says("Hello there.")])).await;
    let chat = |messages: &[Value]| {
        post(&app, messages, json!({})).header("x-openwebui-chat-id", "chat-2")
    };
    let session = session_of(&chat(&[user("Hello")]).send().await.unwrap());
    assert_ne!(session, "");
    for prompt in prompts() {
        let response = chat(&[user(&prompt)]).send().await.unwrap();
        let found = (response.status().as_u16(), session_of(&response));
        assert_eq!(found, (200, String::new()), "{prompt}");
    }
    assert_eq!(runs(&app, &session).await.len(), 1);

    let with_files = "### Task:\nRespond to the user query using the provided context, incorporating inline citations in the format [id].\n\n### Guidelines:\n- Cite.\n\n### Output:\nProvide a clear and direct response to the user's query.\n\n<context>\n<source id=\"1\">The plan.</source>\n</context>\n\nWhat is the plan?";
    let transcript = [user("Hello"), assistant("Hello there."), user(with_files)];
    let answered = chat(&transcript).send().await.unwrap();
    assert_eq!(session_of(&answered), session);
    assert_eq!(runs(&app, &session).await.len(), 2);
}
