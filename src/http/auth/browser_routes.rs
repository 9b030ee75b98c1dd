//! The routes that accept browser tokens. Every other route refuses them.

use http::Method;

use crate::domain::browser_token::BrowserScope;

/// A route for browser tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrowserRoute {
    /// Information about the service, for every token.
    Info,
    /// The list of sessions, for tokens of a user with the scope `read`.
    Sessions,
    /// A route of one session of the token, which must have the scope.
    Session(BrowserScope),
    /// A route of the session of the token that has the conversation in the path as its external id.
    Conversation(BrowserScope),
    /// A route whose body names the conversation. The handler checks the session and the scopes
    /// (`adapters::turn`).
    ConversationInBody,
}

/// The route with this pattern; none if it is not for browsers.
///
/// Routes that show exact requests, exports and checks of a session are not for browsers: they contain
/// what the operator and the back end have added to the conversation. Forks are not for browsers,
/// because each has the whole budget of a session.
pub(super) fn browser_route(method: &Method, pattern: &str) -> Option<BrowserRoute> {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let path = pattern.strip_prefix("/v1").unwrap_or(pattern);
    if let Some(rest) = path.strip_prefix("/sessions/{session_id}") {
        return session_scope(method, rest).map(BrowserRoute::Session);
    }
    match (method, path) {
        ("GET", "/sessions" | "/sessions/stream") | ("POST", "/sessions/tickets") => {
            Some(BrowserRoute::Sessions)
        }
        ("GET", "/info") => Some(BrowserRoute::Info),
        ("GET", "/ai-sdk/chat/{chat_id}/stream" | "/ai-sdk/chat/{chat_id}/messages") => {
            Some(BrowserRoute::Conversation(BrowserScope::Read))
        }
        ("POST", "/ai-sdk/chat/{chat_id}/stop") => {
            Some(BrowserRoute::Conversation(BrowserScope::Cancel))
        }
        ("POST", "/ai-sdk/chat" | "/ag-ui" | "/ag-ui/connect") => {
            Some(BrowserRoute::ConversationInBody)
        }
        _ => None,
    }
}

/// The scope for a route of a session, by the part of the pattern after the id of the session.
fn session_scope(method: &str, rest: &str) -> Option<BrowserScope> {
    Some(match (method, rest) {
        (
            "GET",
            ""
            | "/messages"
            | "/events"
            | "/events/stream"
            | "/runs"
            | "/runs/{run_id}"
            | "/runs/{run_id}/stream"
            | "/runs/{run_id}/explain"
            | "/approvals"
            | "/todos"
            | "/files/{file_id}/content",
        )
        | ("POST", "/tickets") => BrowserScope::Read,
        ("POST", "/messages" | "/tool_results" | "/files" | "/runs/{run_id}/retry")
        | ("PUT" | "DELETE", "/messages/{message_id}/feedback") => BrowserScope::Post,
        ("POST", "/approvals/{tool_use_id}") => BrowserScope::Decide,
        ("POST", "/cancel" | "/runs/{run_id}/cancel") => BrowserScope::Cancel,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::openapi::document;

    /// The routes of the document that browsers may use, with their scopes.
    fn documented() -> Vec<String> {
        let mut routes = Vec::new();
        for (path, item) in &document().paths.paths {
            let operations = [
                (Method::GET, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ];
            for (method, operation) in operations {
                let Some(route) = browser_route(&method, path) else { continue };
                // A rule without its operation may be misspelled.
                assert!(operation.is_some(), "{method} {path}");
                let scope = match route {
                    BrowserRoute::Info => "any",
                    BrowserRoute::Sessions => "read",
                    BrowserRoute::Session(scope) | BrowserRoute::Conversation(scope) => {
                        scope.as_str()
                    }
                    BrowserRoute::ConversationInBody => "body",
                };
                routes.push(format!("{scope} {method} {path}"));
            }
        }
        routes.sort_unstable();
        routes
    }

    #[test]
    fn the_routes_for_browsers_are_these() {
        let sessions = "/v1/sessions/{session_id}";
        let mut expected: Vec<String> = [
            "cancel POST /cancel",
            "cancel POST /runs/{run_id}/cancel",
            "decide POST /approvals/{tool_use_id}",
            "post DELETE /messages/{message_id}/feedback",
            "post POST /files",
            "post POST /messages",
            "post POST /runs/{run_id}/retry",
            "post POST /tool_results",
            "post PUT /messages/{message_id}/feedback",
            "read GET ",
            "read GET /approvals",
            "read GET /events",
            "read GET /events/stream",
            "read GET /files/{file_id}/content",
            "read GET /messages",
            "read GET /runs",
            "read GET /runs/{run_id}",
            "read GET /runs/{run_id}/explain",
            "read GET /runs/{run_id}/stream",
            "read GET /todos",
            "read POST /tickets",
        ]
        .iter()
        .map(|line| {
            let (method, rest) = line.rsplit_once(' ').unwrap();
            format!("{method} {sessions}{rest}")
        })
        .collect();
        expected.extend(
            [
                "any GET /v1/info",
                "read GET /v1/sessions",
                "read GET /v1/sessions/stream",
                "read POST /v1/sessions/tickets",
                "read GET /ai-sdk/chat/{chat_id}/stream",
                "read GET /ai-sdk/chat/{chat_id}/messages",
                "cancel POST /ai-sdk/chat/{chat_id}/stop",
                "body POST /ai-sdk/chat",
                "body POST /ag-ui",
                "body POST /ag-ui/connect",
            ]
            .map(str::to_owned),
        );
        expected.sort_unstable();
        assert_eq!(documented(), expected);
    }

    #[test]
    fn an_unknown_route_or_method_is_not_for_browsers() {
        for (method, pattern) in [
            (Method::DELETE, "/v1/sessions/{session_id}"),
            (Method::PATCH, "/v1/sessions/{session_id}"),
            (Method::POST, "/v1/sessions"),
            (Method::POST, "/v1/sessions/{session_id}/forks"),
            (Method::POST, "/v1/sessions/{session_id}/events"),
            (Method::GET, "/v1/sessions/{session_id}/export"),
            (Method::GET, "/v1/sessions/{session_id}/runs/{run_id}/requests/{n}"),
            (Method::POST, "/v1/browser_tokens"),
            (Method::GET, "/v1/later"),
        ] {
            assert_eq!(browser_route(&method, pattern), None, "{method} {pattern}");
        }
    }
}
