//! The weather tools, against a stand-in for Open-Meteo.

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

type Answer = (StatusCode, Json<Value>);

/// Places by name. The service leaves `results` out when it knows none.
async fn search(Query(query): Query<HashMap<String, String>>) -> Answer {
    let answer = match query["name"].as_str() {
        "San Francisco" => json!({ "results": [
            { "id": 5_391_959, "name": "San Francisco", "latitude": 37.77493,
              "longitude": -122.41942, "elevation": 16.0, "feature_code": "PPLA2",
              "country_code": "US", "timezone": "America/Los_Angeles", "population": 864_816,
              "country": "United States", "admin1": "California" },
        ], "generationtime_ms": 0.7 }),
        _ => json!({ "generationtime_ms": 0.3 }),
    };
    (StatusCode::OK, Json(answer))
}

/// The weather at the one place. The service refuses what it does not know.
async fn forecast(Query(query): Query<HashMap<String, String>>) -> Answer {
    let asked = ["latitude", "longitude", "current"].map(|key| query[key].as_str());
    if asked != ["37.77493", "-122.41942", "temperature_2m,weather_code"] {
        let answer = json!({ "error": true, "reason": "unknown" });
        return (StatusCode::BAD_REQUEST, Json(answer));
    }
    let (degrees, unit) = match query["temperature_unit"].as_str() {
        "fahrenheit" => (59.4, "°F"),
        _ => (15.0, "°C"),
    };
    let answer = json!({
        "latitude": 37.763_283, "longitude": -122.412_86, "generationtime_ms": 0.03,
        "utc_offset_seconds": 0, "timezone": "GMT", "elevation": 18.0,
        "current_units": { "time": "iso8601", "temperature_2m": unit, "weather_code": "wmo code" },
        "current": { "time": "2026-11-22T04:45", "interval": 900, "temperature_2m": degrees,
                     "weather_code": 2 },
    });
    (StatusCode::OK, Json(answer))
}

async fn start(script: Value, server: &Url) -> TestApp {
    // A second test of the same process finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let weather = Some(Arc::new(OpenMeteo::new(server, server).unwrap()));
    let options = Options { weather, ..Options::default() };
    TestApp::start_with(script, Setup { options, ..Setup::default() }).await
}

async fn stand_in() -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let router =
        Router::new().route("/v1/search", get(search)).route("/v1/forecast", get(forecast));
    tokio::spawn(axum::serve(listener, router).into_future());
    url
}

fn many(calls: &[(&str, Value)]) -> Value {
    let block =
        |(name, input): &(&str, Value)| json!({ "type": "tool_use", "name": name, "input": input });
    json!({ "content": calls.iter().map(block).collect::<Vec<_>>() })
}

fn results(history: &[Value]) -> Vec<Value> {
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    blocks.iter().map(|block| json!([block["is_error"], block["content"]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_weather_is_told_in_either_unit_and_the_temperature_as_a_number() {
    let asks = many(&[
        ("get_weather", json!({ "location": "San Francisco, CA" })),
        ("get_weather", json!({ "location": "San Francisco", "unit": "fahrenheit" })),
        ("get_temperature", json!({ "city": "San Francisco" })),
        ("get_weather", json!({ "location": "San Francisco, France" })),
        ("get_weather", json!({ "location": "Atlantis" })),
    ]);
    let app = start(replies(&[asks, says("Mild.")]), &stand_in().await).await;
    let session = app.session().await;
    assert_eq!(session.ask("How is the weather?").await["output_text"], "Mild.");
    let place = "San Francisco, California, United States";
    assert_eq!(
        results(&session.history().await),
        [
            json!([null, format!("15 degrees celsius, partly cloudy in {place}")]),
            json!([null, format!("59.4 degrees fahrenheit, partly cloudy in {place}")]),
            json!([null, "15.0"]),
            json!([true, "Error: no place called \"San Francisco, France\" is known"]),
            json!([true, "Error: no place called \"Atlantis\" is known"]),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_weather_and_the_time_are_answered_in_one_message() {
    let asks = many(&[
        ("get_weather", json!({ "location": "San Francisco" })),
        ("get_time", json!({ "timezone": "America/Los_Angeles" })),
    ]);
    let app = start(replies(&[asks, says("Both.")]), &stand_in().await).await;
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
async fn a_weather_service_that_is_away_is_a_network_error() {
    // A port that was free a moment ago, where nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let asks = many(&[("get_weather", json!({ "location": "San Francisco" }))]);
    let app = start(replies(&[asks, says("I cannot tell.")]), &nowhere).await;
    let session = app.session().await;
    assert_eq!(session.ask("Weather?").await["output_text"], "I cannot tell.");
    let text = "Error: fetch failed: the weather service cannot be reached";
    assert_eq!(results(&session.history().await), [json!([true, text])]);
    let events = session.events().await;
    let told = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!(told["error_type"], "NETWORK_ERROR");
}
