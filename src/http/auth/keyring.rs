//! The keys that are good, as the database has them, remembered for a moment.
//!
//! A request with a key that was seen within [`FRESH_FOR`] costs no query. Whoever sends wrong keys,
//! as many as they like, gets a few queries at a time in a line that is not long, and does not stand in
//! the line of keys that are known to be good.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::caller::Caller;
use super::ticket::Given;
use super::tokens::Tokens;
use crate::domain::api_key::{ApiKey, Scope};
use crate::domain::ids::KeyId;
use crate::domain::pass::Pass;
use crate::http::error::ApiError;
use crate::http::server::deadline::in_time;
use crate::service::concurrency_limit::ConcurrencyLimit;
use crate::store::StoreError;
use crate::store::api_keys::{Credential, find_credential, note_use};
use crate::store::connections::Connections;
use crate::store::stream_tickets::take;
use crate::tokens::Issuer;

/// How long an answer of the database counts. A key that was revoked is refused after this time,
/// and a stream that it opened within another [`super::watch::CHECK_EVERY`].
const FRESH_FOR: Duration = Duration::from_secs(2);
/// Keys remembered, those that do not exist included.
const MAX_REMEMBERED: usize = 10_000;
/// Keys that are looked up at a time, in each of the lines; the pool has eight connections.
const AT_A_TIME: usize = 2;
/// Requests in the lines of what anybody can make up: as many as are met in less than a second.
const MAX_WAITING: usize = 256;
/// Longer than any request is in hand.
const PATIENCE: Duration = Duration::from_mins(1);

/// What the database said of a key.
#[derive(Debug, Clone, Copy)]
struct Answer {
    /// None: there is no such key, or it is no longer good.
    credential: Option<Credential>,
    counts_until: Instant,
}

/// The keys that are good.
#[derive(Debug)]
pub(in crate::http) struct Keyring {
    pool: Connections,
    /// For notes of use, which no request waits for.
    tasks: TaskTracker,
    answers: Mutex<HashMap<KeyId, Answer>>,
    known_key_limit: ConcurrencyLimit,
    unknown_key_limit: ConcurrencyLimit,
    ticket_limit: ConcurrencyLimit,
    /// None: only keys are good.
    tokens: Option<Tokens>,
}

impl Keyring {
    pub(in crate::http) fn new(
        pool: Connections,
        tasks: TaskTracker,
        issuer: Option<Arc<Issuer>>,
    ) -> Self {
        Self {
            tokens: issuer.map(|issuer| Tokens::new(issuer, pool.clone())),
            pool,
            tasks,
            answers: Mutex::default(),
            known_key_limit: ConcurrencyLimit::new(AT_A_TIME, Semaphore::MAX_PERMITS, PATIENCE),
            unknown_key_limit: ConcurrencyLimit::new(AT_A_TIME, MAX_WAITING, PATIENCE),
            ticket_limit: ConcurrencyLimit::new(AT_A_TIME, MAX_WAITING, PATIENCE),
        }
    }

    /// Who has this key; none if it is not good.
    pub(super) async fn caller(&self, key: &ApiKey) -> Result<Option<Caller>, ApiError> {
        let credential = self.credential(key.id()).await?;
        let Some(credential) = credential.filter(|found| found.hash == key.hash()) else {
            return Ok(None);
        };
        if credential.is_note_due && self.takes_note(key.id()) {
            self.tasks.spawn(note(self.pool.clone(), key.id()));
        }
        let Credential { tenant, scope, .. } = credential;
        Ok(Some(Caller { tenant, scope, pass: Some(Pass::Key(key.id())) }))
    }

    /// Whom this token is about; none if it is not good.
    pub(super) async fn bearer(&self, token: &str) -> Result<Option<Caller>, ApiError> {
        match &self.tokens {
            Some(tokens) => tokens.caller(token).await,
            None => Ok(None),
        }
    }

    /// Who made this ticket, which is then used up; none if it is not good, or what made it no longer is.
    pub(super) async fn redeem(&self, given: &Given) -> Result<Option<Caller>, ApiError> {
        let taken = in_time(async {
            // Anybody can make up tickets.
            let _turn = self.ticket_limit.acquire().await.ok_or(ApiError::TooManyStrangers)?;
            let mut conn = self.pool.acquire().await?;
            let taken = take(&mut conn, given.ticket.hash(), given.session_id).await?;
            conn.give_back();
            Ok(taken)
        });
        let Some((tenant, Some(pass))) = taken.await? else { return Ok(None) };
        let caller = Caller { tenant, scope: Scope::Read, pass: Some(pass) };
        let is_good = match pass {
            Pass::Key(id) => self.is_good(id).await?,
            // The ticket ends with the token.
            Pass::Token(..) => self.tokens.is_some(),
        };
        Ok(is_good.then_some(caller))
    }

    /// Whether a key is good, whatever its secret.
    pub(super) async fn is_good(&self, id: KeyId) -> Result<bool, ApiError> {
        Ok(self.credential(id).await?.is_some())
    }

    async fn credential(&self, id: KeyId) -> Result<Option<Credential>, ApiError> {
        let answer = self.answers().get(&id).copied();
        if let Some(answer) = answer.filter(Answer::counts) {
            return Ok(answer.credential);
        }
        let was_good = answer.is_some_and(|answer| answer.credential.is_some());
        let limit = if was_good { &self.known_key_limit } else { &self.unknown_key_limit };
        in_time(async {
            let _permit = limit.acquire().await.ok_or(ApiError::TooManyStrangers)?;
            // Who stood before in the line may have asked for the same key.
            let answer = self.answers().get(&id).copied().filter(Answer::counts);
            match answer {
                Some(answer) => Ok(answer.credential),
                None => self.look_up(id).await,
            }
        })
        .await
    }

    async fn look_up(&self, id: KeyId) -> Result<Option<Credential>, ApiError> {
        // Before the database looks: what is revoked later is found out in time.
        let asked_at = Instant::now();
        let mut conn = self.pool.acquire().await?;
        let credential = find_credential(&mut conn, id).await?;
        conn.give_back();
        let good_for = credential.and_then(|found| found.good_for).unwrap_or(FRESH_FOR);
        let counts_until = asked_at + good_for.min(FRESH_FOR);
        let mut answers = self.answers();
        make_room(&mut answers);
        answers.insert(id, Answer { credential, counts_until });
        Ok(credential)
    }

    /// Whether this is the one to note that a key is used.
    fn takes_note(&self, id: KeyId) -> bool {
        let mut answers = self.answers();
        let credential = answers.get_mut(&id).and_then(|answer| answer.credential.as_mut());
        credential.is_some_and(|credential| std::mem::take(&mut credential.is_note_due))
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<KeyId, Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    fn counts(&self) -> bool {
        Instant::now() < self.counts_until
    }
}

/// Forgets when there is too much to remember: first what anybody can make up.
fn make_room(answers: &mut HashMap<KeyId, Answer>) {
    if answers.len() >= MAX_REMEMBERED {
        answers.retain(|_, answer| answer.credential.is_some());
    }
    if answers.len() >= MAX_REMEMBERED {
        answers.clear();
    }
}

async fn note(pool: Connections, id: KeyId) {
    let noted = async {
        let mut conn = pool.acquire().await?;
        note_use(&mut conn, id).await?;
        conn.give_back();
        Ok::<(), StoreError>(())
    };
    if let Err(error) = noted.await {
        tracing::warn!(key.id = %id, %error, "it was not noted that a key is used");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::api_key::SecretHash;
    use crate::domain::ids::TenantId;

    fn answer(is_good: bool) -> Answer {
        let credential = Credential {
            hash: SecretHash([0; 32]),
            tenant: TenantId::DEFAULT,
            scope: Scope::Read,
            good_for: None,
            is_note_due: false,
        };
        Answer { credential: is_good.then_some(credential), counts_until: Instant::now() }
    }

    #[test]
    fn keys_that_were_made_up_are_forgotten_before_those_that_are_good() {
        let good: Vec<KeyId> = (0..10).map(|_| KeyId::new()).collect();
        let mut answers: HashMap<_, _> = good.iter().map(|id| (*id, answer(true))).collect();
        for _ in 0..2 * MAX_REMEMBERED {
            make_room(&mut answers);
            answers.insert(KeyId::new(), answer(false));
            assert!(answers.len() <= MAX_REMEMBERED);
        }
        assert!(good.iter().all(|id| answers.contains_key(id)));
    }

    #[test]
    fn no_number_of_good_keys_is_too_large() {
        let mut answers = HashMap::new();
        for _ in 0..2 * MAX_REMEMBERED {
            make_room(&mut answers);
            answers.insert(KeyId::new(), answer(true));
            assert!(answers.len() <= MAX_REMEMBERED);
        }
    }
}
