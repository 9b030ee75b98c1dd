//! Files of a session in its forks.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Session, TestApp, media, problem, replies, says};

async fn uploaded(session: &Session<'_>) -> String {
    let file =
        session.app.post(&session.path("/files")).body(media::png(2, 2)).send().await.unwrap();
    file.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
}

fn refers(id: &str) -> Value {
    let source = json!({ "type": "file", "file_id": id });
    json!({ "content": [{ "type": "image", "source": source }, { "type": "text", "text": "What is this?" }] })
}

async fn fork<'a>(session: &Session<'a>, body: Value) -> Session<'a> {
    let fork = session.app.post(&session.path("/forks")).json(&body).send().await.unwrap();
    assert_eq!(fork.status(), StatusCode::CREATED);
    let fork: Value = fork.json().await.unwrap();
    Session { app: session.app, id: fork["id"].as_str().unwrap().to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_at_any_point_can_use_the_files_of_its_source() {
    let app = TestApp::start(replies(&[says("A picture.")])).await;
    let source = app.session().await;
    let id = uploaded(&source).await;
    assert_eq!(source.ask_with(refers(&id)).await["status"], "completed");
    let before = fork(&source, json!({ "before": 1 })).await;
    let after = fork(&source, json!({})).await;
    let indirect = fork(&before, json!({})).await;
    let later = uploaded(&source).await;
    for session in [&before, &after, &indirect] {
        assert_eq!(session.ask_with(refers(&id)).await["status"], "completed");
        let content = session.path(&format!("/files/{id}/content"));
        assert_eq!(app.get(&content).send().await.unwrap().status(), StatusCode::OK);
        // What is uploaded after the fork belongs to the source alone.
        let refused = session.message(&refers(&later)).send().await.unwrap();
        problem(refused, 422, "validation_failed").await;
    }
    // A file of a fork is no file of its source.
    let own = uploaded(&before).await;
    assert_eq!(before.ask_with(refers(&own)).await["status"], "completed");
    let refused = source.message(&refers(&own)).send().await.unwrap();
    problem(refused, 422, "validation_failed").await;
    let other = app.session().await;
    problem(other.message(&refers(&id)).send().await.unwrap(), 422, "validation_failed").await;

    // The source stays as long as its forks, and nothing of it is left after that.
    let delete = async |path: &str| app.client.delete(app.url(path)).send().await.unwrap().status();
    assert_eq!(delete(&source.path("")).await, StatusCode::CONFLICT);
    assert_eq!(delete(&source.path("?forks=delete")).await, StatusCode::NO_CONTENT);
    for file in [&id, &later, &own] {
        problem(app.get(&format!("/v1/files/{file}")).send().await.unwrap(), 404, "file_not_found")
            .await;
    }
    // The requests of source and forks begin with the same message.
    app.end_refused(&[]);
}
