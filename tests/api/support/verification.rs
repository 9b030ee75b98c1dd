//! Reads the service's own verification of its data, and its explanation of runs.

use serde_json::Value;
use twostep::store::verify::{list_sessions, session};

use super::{Session, TestApp};

impl TestApp {
    /// The findings of the verification of all sessions, each as a sentence.
    pub(crate) async fn findings(&self) -> Vec<String> {
        let pool = self.database.pool(1);
        let mut conn = pool.acquire().await.unwrap();
        let mut findings = Vec::new();
        let mut after = None;
        loop {
            let ids = list_sessions(&mut conn, after, 100).await.unwrap();
            after = ids.last().copied();
            if after.is_none() {
                return findings;
            }
            for id in ids {
                let verification = session(&mut conn, None, id).await.unwrap().unwrap();
                findings.extend(verification.findings.iter().map(ToString::to_string));
            }
        }
    }
}

impl Session<'_> {
    /// The response of `GET /v1/sessions/{id}/verify`.
    pub(crate) async fn verify(&self) -> Value {
        self.app.get(&self.path("/verify")).send().await.unwrap().json().await.unwrap()
    }

    /// The response of `GET /v1/sessions/{id}/runs/{id}/explain`.
    pub(crate) async fn explain(&self, run: &Value) -> Value {
        let path = self.path(&format!("/runs/{}/explain", run["id"].as_str().unwrap()));
        self.app.get(&path).send().await.unwrap().json().await.unwrap()
    }

    /// The id of the session in the database.
    pub(crate) fn uuid(&self) -> uuid::Uuid {
        self.id.trim_start_matches("ses_").parse().unwrap()
    }
}
