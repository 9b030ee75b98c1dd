//! Every route of the OpenAPI document, with invalid credentials of every kind and with valid ones.

use std::collections::BTreeMap;

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::{
    BrowserTokenId, DeliveryId, EnvironmentId, FileId, RunId, SessionId, TenantId, WebhookId,
};
use twostep::outbound::AllowedHosts;

use crate::support::{
    Identity, Session, Setup, TestApp, asks, calls_as, client_bearing, client_with, keys_needed,
    problem, replies, says, seconds_from_now,
};

/// An operation of the OpenAPI document.
#[derive(Debug)]
pub(super) struct Route {
    method: Method,
    path: String,
    pub(super) name: String,
    takes_body: bool,
    pub(super) is_open: bool,
    /// The documented responses by status.
    responses: Value,
}

pub(super) fn routes() -> Vec<Route> {
    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_ascii_uppercase();
            routes.push(Route {
                method: Method::from_bytes(method.as_bytes()).unwrap(),
                path: path.clone(),
                name: operation["operationId"].as_str().unwrap().to_owned(),
                takes_body: operation.get("requestBody").is_some(),
                is_open: is_open(&operation["security"]),
                responses: operation["responses"].clone(),
            });
        }
    }
    routes
}

/// Returns whether an operation can be called without a key.
fn is_open(security: &Value) -> bool {
    let requirements = security.as_array().unwrap();
    requirements.is_empty() || requirements.contains(&serde_json::json!({}))
}

/// Values for the parameters of a path.
#[derive(Debug, Clone)]
pub(super) struct Ids {
    session: String,
    run: String,
    call: String,
    webhook: String,
    delivery: String,
    agent: String,
    browser_token: String,
    chat: String,
    message: String,
    file: String,
    environment: String,
    response: String,
}

impl Ids {
    pub(super) fn unknown() -> Self {
        Self {
            session: SessionId::new().to_string(),
            run: RunId::new().to_string(),
            call: "toolu_01unknown".to_owned(),
            webhook: WebhookId::new().to_string(),
            delivery: DeliveryId::new().to_string(),
            // An id is also a valid name.
            agent: SessionId::new().to_string(),
            browser_token: BrowserTokenId::new().to_string(),
            chat: SessionId::new().to_string(),
            message: "msg_unknown".to_owned(),
            file: FileId::new().to_string(),
            environment: EnvironmentId::new().to_string(),
            response: response_of(&RunId::new().to_string()),
        }
    }

    /// The ids with those of another session.
    pub(super) fn of_session(&self, session: &str) -> Self {
        Self { session: session.to_owned(), ..self.clone() }
    }

    fn all(&self) -> [(&'static str, &str); 13] {
        [
            ("session_id", &self.session),
            ("run_id", &self.run),
            ("tool_use_id", &self.call),
            ("webhook_id", &self.webhook),
            ("delivery_id", &self.delivery),
            ("name", &self.agent),
            ("token_id", &self.browser_token),
            ("chat_id", &self.chat),
            ("message_id", &self.message),
            ("file_id", &self.file),
            ("agent_id", &self.agent),
            ("environment_id", &self.environment),
            ("response_id", &self.response),
        ]
    }
}

impl Route {
    /// The method and the path, as a line for comparisons.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(super) fn is_of_managed_agents(&self) -> bool {
        self.path.starts_with("/anthropic/")
    }

    /// Returns true if errors of the route have the form of OpenAI's.
    pub(super) fn is_openai(&self) -> bool {
        self.path.starts_with("/openai/")
    }

    fn is_reading(&self) -> bool {
        self.method == Method::GET || ["create_ticket", "create_list_ticket"].contains(&&*self.name)
    }

    /// A request with a valid path and body. Each new route with a body needs a case here.
    pub(super) fn request(&self, client: &Client, app: &TestApp, ids: &Ids) -> RequestBuilder {
        let mut path = self.path.replace("{n}", "1");
        for (name, id) in ids.all() {
            path = path.replace(&format!("{{{name}}}"), id);
        }
        assert!(!path.contains('{'), "this test has no value for a parameter of {path}");
        if self.name == "delete_session" {
            // Requests to other routes have created forks.
            path.push_str("?forks=delete");
        }
        if self.name == "revoke_browser_tokens" {
            path.push_str("?user=anna");
        }
        let request = client.request(self.method.clone(), app.url(&path));
        if !self.takes_body {
            return request;
        }
        if self.name == "import_session" {
            let first = json!({ "type": "session", "version": 1, "settings": {} });
            let lines = format!("{first}\n{}\n", json!({ "type": "end", "messages": 0 }));
            return request.header("content-type", "application/jsonl").body(lines);
        }
        if matches!(&*self.name, "create_openai_file" | "create_managed_file") {
            let form =
                "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nHello\r\n--b--\r\n";
            return request.header("content-type", "multipart/form-data; boundary=b").body(form);
        }
        if matches!(&*self.name, "create_file" | "create_session_file") {
            return request.header("content-type", "text/plain").body("Hello");
        }
        request.json(&self.body(ids))
    }

    fn body(&self, ids: &Ids) -> Value {
        match &*self.name {
            "create_session" | "create_fork" | "stop_chat" | "renew_browser_token" => json!({}),
            "create_chat_turn" => {
                let parts = json!([{ "type": "text", "text": "Hello" }]);
                json!({ "id": "a chat", "message": { "id": "m", "role": "user", "parts": parts } })
            }
            "run_ag_ui_agent" | "connect_ag_ui_thread" => {
                // The session of `create_chat_turn`, whose run is stopped at the end.
                let messages = json!([{ "id": "m", "role": "user", "content": "Hello" }]);
                json!({ "threadId": "a chat", "runId": "r", "messages": messages })
            }
            "create_chat_completion" => {
                let messages = json!([{ "role": "user", "content": "Hello" }]);
                // The session of `create_chat_turn`, whose run is stopped at the end.
                let metadata = json!({ "session_id": "a chat" });
                json!({ "model": "default", "messages": messages, "metadata": metadata })
            }
            "create_openai_response" => {
                // The session of `create_chat_turn`, whose run is stopped at the end.
                json!({ "input": "Hello", "conversation": "a chat" })
            }
            "create_message" => json!({ "content": "Hello" }),
            "create_events" => {
                let message = json!({ "type": "user.message", "content": "Hello" });
                json!({ "events": [{ "type": "user.interrupt" }, message] })
            }
            "put_feedback" => json!({ "rating": "up", "text": "Thanks." }),
            "update_session" => json!({ "title": "Bells" }),
            "decide_approval" => json!({ "decision": "allow" }),
            "create_tool_results" => {
                json!({ "results": [{ "tool_use_id": ids.call, "content": "Done." }] })
            }
            "create_webhook" => {
                json!({ "url": "http://hooks.invalid/", "events": ["run.completed"] })
            }
            "create_browser_token" => json!({ "user": "anna", "scopes": ["read"] }),
            "put_agent" => json!({ "description": "Rings bells." }),
            "update_webhook" => json!({ "description": "Bells" }),
            "create_managed_agent" => json!({ "name": "Ringer", "model": "m" }),
            "create_managed_environment" => json!({ "name": "Belfry" }),
            "create_managed_session" => json!({ "agent": "general" }),
            "update_managed_agent" | "update_managed_environment" | "update_managed_session" => {
                json!({ "metadata": { "bell": "1" } })
            }
            "send_managed_events" => json!({ "events": [{ "type": "user.interrupt" }] }),
            "replay_deliveries" => json!({ "since": "2026-01-01T00:00:00Z" }),
            other => panic!("this test has no body for {other}"),
        }
    }
}

/// The status, headers and body of a response, without the ids in the request and the request id.
async fn comparable_response(
    request: RequestBuilder,
    ids: &Ids,
) -> (StatusCode, BTreeMap<String, String>, String) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let mut headers: BTreeMap<String, String> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let request_id = headers.remove("x-request-id").unwrap();
    headers.remove("request-id");
    headers.remove("date");
    headers.remove("content-length");
    let mut body = response.text().await.unwrap().replace(&request_id, "its id");
    for (name, id) in ids.all() {
        body = body.replace(id, name);
    }
    (status, headers, body)
}

pub(super) async fn status(request: RequestBuilder) -> StatusCode {
    // The body is not read: a stream has no end.
    request.send().await.unwrap().status()
}

/// A service whose model calls a tool that needs an approval.
pub(super) async fn start(access: Setup) -> TestApp {
    let ring = calls_as(&[("toolu_01ring", "ring", json!({ "line": "one" }))]);
    let webhook_hosts = AllowedHosts::parse(["hooks.invalid"]).unwrap();
    let Setup { needs_keys, tokens, .. } = access;
    let setup = Setup { needs_keys, tokens, webhook_hosts, ..asks() };
    TestApp::start_with(replies(&[ring, says("Rang.")]), setup).await
}

pub(super) async fn waiting_run(session: &Session<'_>) -> Ids {
    let run = session.post(json!({ "content": "Ring" })).await;
    session.waits_for(&run, &["toolu_01ring"]).await;
    let run = run["id"].as_str().unwrap().to_owned();
    let (webhook, delivery) = failed_delivery(session.app).await;
    let agent = session.app.client.put(session.app.url("/v1/agents/ringer"));
    assert_eq!(agent.json(&json!({})).send().await.unwrap().status(), 201);
    let token = json!({ "session_id": session.id, "scopes": ["read"] });
    let token = session.app.post("/v1/browser_tokens").json(&token).send().await.unwrap();
    let token: Value = token.json().await.unwrap();
    let browser_token = token["id"].as_str().unwrap().to_owned();
    let environment = session.app.post("/anthropic/v1/environments");
    let environment = environment.json(&json!({ "name": "Belfry" })).send().await.unwrap();
    let environment: Value = environment.json().await.unwrap();
    let environment = environment["id"].as_str().unwrap().to_owned();
    let chat = SessionId::new().to_string();
    session.app.session_with(json!({ "external_id": chat })).await;
    let message = session.history().await.pop().unwrap()["message"]["id"].clone();
    let message = message.as_str().unwrap().to_owned();
    let file = session.app.post(&session.path("/files")).body("Hello").send().await.unwrap();
    let file = file.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned();
    let response = response_of(&run);
    let (session, call, agent) =
        (session.id.clone(), "toolu_01ring".to_owned(), "ringer".to_owned());
    Ids {
        session,
        run,
        call,
        webhook,
        delivery,
        agent,
        browser_token,
        chat,
        message,
        file,
        environment,
        response,
    }
}

/// The id of the response with the first events of a run, which is the first one of its session.
fn response_of(run: &str) -> String {
    format!("resp_{}{:016x}", run.trim_start_matches("run_"), 0)
}

/// The ids with those of a new file.
async fn with_new_file(app: &TestApp, ids: &Ids) -> Ids {
    let file = app.post("/v1/files").body("Hello").send().await.unwrap();
    let file = file.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned();
    Ids { file, ..ids.clone() }
}

/// A webhook with a failed delivery.
async fn failed_delivery(app: &TestApp) -> (String, String) {
    let webhook = json!({ "url": "http://hooks.invalid/", "events": ["approval.decided"] });
    let webhook = app.post("/v1/webhooks").json(&webhook).send().await.unwrap();
    let webhook: Value = webhook.json().await.unwrap();
    let webhook = webhook["id"].as_str().unwrap().to_owned();
    let delivery = DeliveryId::new();
    sqlx::query(
        "INSERT INTO webhook_deliveries
             (id, webhook_id, tenant_id, event, body, state, next_attempt_at, ended_at)
         VALUES ($1, $2, $3, 'approval.decided', '{}', 'failed', NULL, now())",
    )
    .bind(delivery.as_uuid())
    .bind(webhook.parse::<WebhookId>().unwrap().as_uuid())
    .bind(TenantId::DEFAULT.as_uuid())
    .execute(&app.database.pool(1))
    .await
    .unwrap();
    (webhook, delivery.to_string())
}

#[test]
fn the_document_lists_which_routes_are_open_and_how_others_refuse() {
    let mut open = Vec::new();
    for route in routes() {
        if route.is_open {
            open.push(route.path);
            continue;
        }
        if route.is_of_managed_agents() || route.is_openai() {
            // These responses have a format of their own.
            let has =
                |status: &str| route.responses[status]["content"]["application/json"].is_object();
            assert!(has("401") && has("403"), "{route:?}");
            continue;
        }
        let refers_to = |status: &str, name: &str| {
            route.responses[status]["$ref"] == format!("#/components/responses/{name}")
        };
        assert!(refers_to("401", "Unauthenticated"), "{route:?}");
        assert!(refers_to("403", "Forbidden"), "{route:?}");
    }
    assert_eq!(open, ["/docs", "/healthz", "/metrics", "/openapi.json", "/readyz"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_of_the_api_refuses_a_query_parameter_that_it_does_not_have() {
    let app = start(Setup::default()).await;
    let session = app.session().await;
    let ids = waiting_run(&session).await;
    let before = session.events().await;
    let sessions = async || app.get("/v1/sessions").send().await.unwrap().text().await.unwrap();
    let (listed, mut checked) = (sessions().await, 0);
    for mut route in routes() {
        let open = route.is_open;
        let unversioned = route.path.strip_prefix("/v1").map(str::to_owned);
        for path in std::iter::once(route.path.clone()).chain(unversioned) {
            route.path = path;
            let mut request = route.request(&app.client, &app, &ids).build().unwrap();
            request.url_mut().query_pairs_mut().append_pair("foo", "1");
            let response = app.client.execute(request).await.unwrap();
            if open {
                // Load balancers and browsers add parameters.
                assert_eq!(response.status(), 200, "{route:?}");
                continue;
            }
            assert_eq!(response.status(), 400, "{route:?}");
            checked += 1;
            if route.is_of_managed_agents() {
                let error: Value = response.json().await.unwrap();
                let details = &error["error"]["details"];
                assert_eq!(details["error_code"], "invalid_query", "{route:?}");
                assert_eq!(details["errors"][0]["parameter"], "foo", "{route:?}");
                continue;
            }
            if route.is_openai() {
                let body: Value = response.json().await.unwrap();
                assert_eq!(body["error"]["param"], "foo", "{route:?}");
                continue;
            }
            let problem = problem(response, 400, "invalid_query").await;
            assert_eq!(problem["errors"][0]["parameter"], "foo", "{route:?}");
        }
    }
    assert!(checked > 80, "{checked}");
    assert_eq!((session.events().await, sessions().await), (before, listed));
    session.allow("toolu_01ring", json!({})).await;
    session.settled(&json!({ "id": ids.run })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_accepts_an_invalid_credential() {
    let identity = Identity::start().await;
    let app = TestApp::start_with(json!({}), identity.trusted()).await;
    let key = async |scope| app.database.key(TenantId::DEFAULT, scope).await;
    let expired = key(Scope::Write).await;
    app.database.set(&expired, "expires_at = now()").await;
    let revoked = key(Scope::Write).await;
    app.database.set(&revoked, "revoked_at = now()").await;
    let unknown = ApiKey::generate().unwrap();
    let mut unauthenticated =
        [None, Some(&expired), Some(&revoked), Some(&unknown)].map(client_with).to_vec();
    let token = |changes| client_bearing(&identity.token(changes));
    unauthenticated.push(token(json!({ "exp": seconds_from_now(-60) })));
    unauthenticated.push(token(json!({ "aud": "others" })));
    let readers =
        [client_with(Some(&key(Scope::Read).await)), token(json!({ "scope": "twostep:read" }))];
    let without_scopes = token(json!({ "scope": "openid" }));
    let ids = Ids::unknown();
    for mut route in routes() {
        if route.is_open {
            assert_eq!(
                status(route.request(&unauthenticated[0], &app, &ids)).await,
                200,
                "{route:?}"
            );
            continue;
        }
        let path = route.path.clone();
        let unversioned = path.strip_prefix("/v1").map(str::to_owned);
        for path in std::iter::once(path.clone()).chain(unversioned) {
            route.path = path;
            for client in &unauthenticated {
                let status = status(route.request(client, &app, &ids)).await;
                assert_eq!(status, 401, "{route:?}");
            }
            for reader in &readers {
                let status = status(route.request(reader, &app, &ids)).await;
                assert_eq!(status == 403, !route.is_reading(), "{route:?} {status}");
            }
            assert_eq!(status(route.request(&without_scopes, &app, &ids)).await, 403, "{route:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_tenant_cannot_distinguish_an_id_from_an_unknown_one() {
    let app = start(keys_needed()).await;
    let tenant = app.database.tenant("acme").await;
    let key = app.database.key(tenant, Scope::Write).await;
    assert_hidden_from(&app, client_with(Some(&key))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_another_tenant_cannot_distinguish_an_id_from_an_unknown_one() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let token = identity.token(json!({ "tenant": "acme" }));
    assert_hidden_from(&app, client_bearing(&token)).await;
}

async fn assert_hidden_from(app: &TestApp, foreign: Client) {
    let session = app.session().await;
    let ids = waiting_run(&session).await;
    let before = session.events().await;
    let own: Value =
        foreign.post(app.url("/v1/sessions")).send().await.unwrap().json().await.unwrap();
    let own = own["id"].as_str().unwrap().to_owned();
    let own_webhook = json!({ "url": "http://hooks.invalid/", "events": ["run.completed"] });
    let own_webhook = foreign.post(app.url("/v1/webhooks")).json(&own_webhook);
    let own_webhook: Value = own_webhook.send().await.unwrap().json().await.unwrap();
    let own_webhook = own_webhook["id"].as_str().unwrap().to_owned();
    // The stream of the list does not end; `streams::session_list` checks its tenants.
    let is_checked = |route: &&Route| !route.is_open && route.name != "stream_sessions";
    for route in routes().iter().filter(is_checked) {
        if !route.path.contains('{') {
            let response =
                comparable_response(route.request(&foreign, app, &ids), &Ids::unknown()).await;
            assert!(response.0.is_success(), "{route:?}: {response:?}");
            assert!(!response.2.contains(&ids.session), "{route:?}: {response:?}");
            continue;
        }
        let unknown = Ids::unknown();
        if route.name == "put_agent" {
            // Each tenant has its own names of agents.
            let statuses = [&ids, &unknown].map(|ids| route.request(&foreign, app, ids));
            for request in statuses {
                assert_eq!(status(request).await, 201, "{route:?}");
            }
            for ids in [&ids, &unknown] {
                let path = app.url(&format!("/v1/agents/{}", ids.agent));
                assert_eq!(status(foreign.delete(path)).await, 204);
            }
            continue;
        }
        let response = comparable_response(route.request(&foreign, app, &ids), &ids).await;
        // Nothing runs in a conversation that does not exist yet.
        let expected = if route.name == "resume_chat" { 204 } else { 404 };
        assert_eq!(response.0, expected, "{route:?}: {response:?}");
        assert_eq!(
            response,
            comparable_response(route.request(&foreign, app, &unknown), &unknown).await
        );

        // The ids are unknown under the caller's own session and webhook, too.
        if ["{run_id}", "{tool_use_id}", "{delivery_id}"].iter().any(|id| route.path.contains(id)) {
            let (session, webhook) = (own.clone(), own_webhook.clone());
            let ids = Ids { session: session.clone(), webhook: webhook.clone(), ..ids.clone() };
            let unknown = Ids { session, webhook, ..unknown };
            let response = comparable_response(route.request(&foreign, app, &ids), &ids).await;
            assert_eq!(response.0, 404, "{route:?}: {response:?}");
            assert_eq!(
                response,
                comparable_response(route.request(&foreign, app, &unknown), &unknown).await
            );
        }
    }
    assert_eq!(session.events().await, before, "another tenant has changed the session");
    session.allow("toolu_01ring", json!({})).await;
    session.settled(&json!({ "id": ids.run })).await;
    stop_chat(&foreign, app).await;
}

/// Stops the conversation that `create_chat_turn` has begun: its call waits for an approval.
async fn stop_chat(client: &Client, app: &TestApp) {
    let stop = client.post(app.url("/ai-sdk/chat/a%20chat/stop"));
    assert_eq!(status(stop).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_accepts_a_valid_key() {
    let app = start(keys_needed()).await;
    let client = app.client.clone();
    assert_accepted(app, client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_accepts_a_valid_token() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    assert_accepted(app, client_bearing(&identity.token(json!({})))).await;
}

async fn assert_accepted(app: TestApp, client: Client) {
    let session = app.session().await;
    let ids = waiting_run(&session).await;
    let (last, mut routes): (Vec<_>, Vec<_>) = routes().into_iter().partition(|route| {
        route.name.starts_with("delete_") || route.name == "revoke_browser_token"
    });
    // This protocol deletes an agent by archiving it, and other routes delete it in between.
    routes.retain(|route| route.name != "archive_managed_agent");
    // First, while the call still waits: after requests to other routes its response varies.
    routes.sort_by_key(|route| route.name != "create_tool_results");
    for route in routes {
        let status = status(route.request(&client, &app, &ids)).await;
        let is_expected = match &*route.name {
            // The call is not one of a client tool.
            "create_tool_results" => status == 404,
            // A conflict: an earlier request has answered the call or stopped the run.
            _ => status.is_success() || status == 409,
        };
        assert!(is_expected, "{route:?}: {status}");
    }
    let run = json!({ "id": ids.run });
    session.settled(&run).await;
    stop_chat(&client, &app).await;
    let (managed, mut last): (Vec<_>, Vec<_>) =
        last.into_iter().partition(Route::is_of_managed_agents);
    // The session last: the others belong to it.
    last.sort_by_key(|route| route.name == "delete_session");
    for route in last {
        let ids = with_new_file(&app, &ids).await;
        let expected = if route.is_openai() { 200 } else { 204 };
        assert_eq!(status(route.request(&client, &app, &ids)).await, expected, "{route:?}");
    }
    let other = app.session().await;
    for route in managed {
        let ids = with_new_file(&app, &ids.of_session(&other.id)).await;
        assert_eq!(status(route.request(&client, &app, &ids)).await, 200, "{route:?}");
    }
    app.stop().await;
}
