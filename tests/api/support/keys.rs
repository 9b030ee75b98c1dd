//! API keys and tenants.

use std::time::{Duration, Instant};

use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderValue};
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::TenantId;
use twostep::store::api_keys::{NewKey, insert};
use twostep::store::tenants;

use super::{Setup, TestApp, TestDatabase};

/// A service that requires API keys.
pub(crate) fn keys_needed() -> Setup {
    Setup { needs_keys: true, ..Setup::default() }
}

impl TestDatabase {
    /// Creates a key with this scope.
    pub(crate) async fn key(&self, tenant: TenantId, scope: Scope) -> ApiKey {
        self.key_for(tenant, scope, None).await
    }

    /// Creates a key that expires after `lifetime`.
    pub(crate) async fn key_for(
        &self,
        tenant_id: TenantId,
        scope: Scope,
        lifetime: Option<Duration>,
    ) -> ApiKey {
        let key = ApiKey::generate().unwrap();
        let new =
            NewKey { id: key.id(), tenant_id, name: "test", hash: key.hash(), scope, lifetime };
        insert(&mut self.pool(1).acquire().await.unwrap(), &new).await.unwrap();
        key
    }

    /// Creates a tenant.
    pub(crate) async fn tenant(&self, name: &str) -> TenantId {
        let id = TenantId::new();
        let mut conn = self.pool(1).acquire().await.unwrap();
        assert!(tenants::insert(&mut conn, id, name).await.unwrap());
        id
    }

    /// Waits until every key has a time of last use.
    pub(crate) async fn all_uses_noted(&self) {
        let pool = self.pool(1);
        let deadline = Instant::now() + Duration::from_mins(1);
        let noted = "SELECT bool_and(last_used_at IS NOT NULL) FROM api_keys";
        while !sqlx::query_scalar::<_, bool>(noted).fetch_one(&pool).await.unwrap() {
            assert!(Instant::now() < deadline, "a key has no time of last use");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Changes a key in the database, without the service.
    pub(crate) async fn set(&self, key: &ApiKey, change: &'static str) {
        let statement = format!("UPDATE api_keys SET {change} WHERE id = $1");
        let statement = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(key.id().as_uuid());
        statement.execute(&self.pool(1)).await.unwrap();
    }
}

/// A client that sends this key with every request.
pub(crate) fn client_with(key: Option<&ApiKey>) -> Client {
    // An earlier test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        headers.insert("x-api-key", HeaderValue::from_str(&key.reveal()).unwrap());
    }
    Client::builder().no_proxy().default_headers(headers).build().unwrap()
}

impl TestApp {
    /// A GET request with another key, or without a key.
    pub(crate) fn get_as(&self, key: Option<&str>, path: &str) -> reqwest::RequestBuilder {
        let request = self.keyless.get(self.url(path));
        match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }
}
