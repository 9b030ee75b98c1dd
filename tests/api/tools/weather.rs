//! The weather tools, with a stub of Open-Meteo.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use twostep::tools::builtin::{OpenMeteo, Options};

use crate::support::{Setup, TestApp, replies, says};

type JsonResponse = (StatusCode, Json<Value>);

/// Finds a location by its name. As in Open-Meteo, a reply without a match has no `results`.
async fn search(Query(query): Query<HashMap<String, String>>) -> JsonResponse {
    let body = match query["name"].as_str() {
        "San Francisco" => json!({ "results": [
            { "id": 5_391_959, "name": "San Francisco", "latitude": 37.77493,
              "longitude": -122.41942, "elevation": 16.0, "feature_code": "PPLA2",
              "country_code": "US", "timezone": "America/Los_Angeles", "population": 864_816,
              "country": "United States", "admin1": "California" },
        ], "generationtime_ms": 0.7 }),
        _ => json!({ "generationtime_ms": 0.3 }),
    };
    (StatusCode::OK, Json(body))
}

/// The weather at the only known location. Other requests are refused.
async fn forecast(Query(query): Query<HashMap<String, String>>) -> JsonResponse {
    let parameters = ["latitude", "longitude", "current"].map(|key| query[key].as_str());
    if parameters != ["37.77493", "-122.41942", "temperature_2m,weather_code"] {
        let body = json!({ "error": true, "reason": "unknown" });
        return (StatusCode::BAD_REQUEST, Json(body));
    }
    let (degrees, unit) = match query["temperature_unit"].as_str() {
        "fahrenheit" => (59.4, "°F"),
        _ => (15.0, "°C"),
    };
    let body = json!({
        "latitude": 37.763_283, "longitude": -122.412_86, "generationtime_ms": 0.03,
        "utc_offset_seconds": 0, "timezone": "GMT", "elevation": 18.0,
        "current_units": { "time": "iso8601", "temperature_2m": unit, "weather_code": "wmo code" },
        "current": { "time": "2026-11-22T04:45", "interval": 900, "temperature_2m": degrees,
                     "weather_code": 2 },
    });
    (StatusCode::OK, Json(body))
}

async fn start(script: Value, server: &Url) -> TestApp {
    // Fails when another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let weather = Some(Arc::new(OpenMeteo::new(server, server).unwrap()));
    let options = Options { weather, ..Options::default() };
    TestApp::start_with(script, Setup { options, ..Setup::default() }).await
}

async fn start_stub() -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let router =
        Router::new().route("/v1/search", get(search)).route("/v1/forecast", get(forecast));
    tokio::spawn(axum::serve(listener, router).into_future());
    url
}

fn round_of_calls(calls: &[(&str, Value)]) -> Value {
    let block =
        |(name, input): &(&str, Value)| json!({ "type": "tool_use", "name": name, "input": input });
    json!({ "content": calls.iter().map(block).collect::<Vec<_>>() })
}

fn results(history: &[Value]) -> Vec<Value> {
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    blocks.iter().map(|block| json!([block["is_error"], block["content"]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn get_weather_supports_both_units_and_get_temperature_returns_a_number() {
    let round = round_of_calls(&[
        ("get_weather", json!({ "location": "San Francisco, CA" })),
        ("get_weather", json!({ "location": "San Francisco", "unit": "fahrenheit" })),
        ("get_temperature", json!({ "city": "San Francisco" })),
        ("get_weather", json!({ "location": "San Francisco, France" })),
        ("get_weather", json!({ "location": "Atlantis" })),
    ]);
    let app = start(replies(&[round, says("Mild.")]), &start_stub().await).await;
    let session = app.session().await;
    assert_eq!(session.ask("How is the weather?").await["output_text"], "Mild.");
    let location = "San Francisco, California, United States";
    assert_eq!(
        results(&session.history().await),
        [
            json!([null, format!("15 degrees celsius, partly cloudy in {location}")]),
            json!([null, format!("59.4 degrees fahrenheit, partly cloudy in {location}")]),
            json!([null, "15.0"]),
            json!([true, "Error: no location named \"San Francisco, France\" is known"]),
            json!([true, "Error: no location named \"Atlantis\" is known"]),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_results_of_two_tools_are_in_one_message() {
    let round = round_of_calls(&[
        ("get_weather", json!({ "location": "San Francisco" })),
        ("get_time", json!({ "timezone": "America/Los_Angeles" })),
    ]);
    let app = start(replies(&[round, says("Both.")]), &start_stub().await).await;
    let session = app.session().await;
    assert_eq!(session.ask("Weather and time?").await["output_text"], "Both.");
    let history = session.history().await;
    let types: Vec<&Value> = history.iter().map(|item| &item["type"]).collect();
    assert_eq!(types, ["user", "assistant", "user", "assistant"]);
    let results = results(&history);
    assert_eq!(results.len(), 2);
    assert!(results[0][1].as_str().unwrap().starts_with("15 degrees celsius, "), "{results:?}");
    assert!(results[1][1].as_str().unwrap().contains("America/Los_Angeles"), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_weather_service_is_a_network_error() {
    // No process listens on this port: it was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let unreachable = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let round = round_of_calls(&[("get_weather", json!({ "location": "San Francisco" }))]);
    let app = start(replies(&[round, says("I do not know.")]), &unreachable).await;
    let session = app.session().await;
    assert_eq!(session.ask("Weather?").await["output_text"], "I do not know.");
    let text = "Error: fetch failed: the weather service cannot be reached";
    assert_eq!(results(&session.history().await), [json!([true, text])]);
    let events = session.events().await;
    let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!(result["error_type"], "NETWORK_ERROR");
}
