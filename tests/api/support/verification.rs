//! What the service finds wrong with its own data, and says of its runs.

use serde_json::Value;
use twostep::store::verify::{list_sessions, session};

use super::{Session, TestApp};

impl TestApp {
    /// What is wrong with any session of the database, a sentence a finding.
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
    /// What the service says of the session's soundness.
    pub(crate) async fn verify(&self) -> Value {
        self.app.get(&self.path("/verify")).send().await.unwrap().json().await.unwrap()
    }

    /// What the service says a run waits for.
    pub(crate) async fn explain(&self, run: &Value) -> Value {
        let path = self.path(&format!("/runs/{}/explain", run["id"].as_str().unwrap()));
        self.app.get(&path).send().await.unwrap().json().await.unwrap()
    }

    /// The session's id as the database has it.
    pub(crate) fn uuid(&self) -> uuid::Uuid {
        self.id.trim_start_matches("ses_").parse().unwrap()
    }
}
