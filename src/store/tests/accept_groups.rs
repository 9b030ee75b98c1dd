//! Messages of several sessions in one statement.

use super::*;
use crate::store::accept::{AcceptStatus, EncodedAccept, write_group};
use crate::store::group_commit::GroupWrite as _;

/// A message for a session in a certain state.
#[derive(Debug, Clone)]
struct Post {
    /// Changes the session before the message is sent.
    state: &'static str,
    key: Option<String>,
    has_worker: bool,
    may_wait: bool,
    versions: Option<Vec<i64>>,
    text: String,
}

const STATES: [&str; 6] = [
    "title = 'idle'",
    "queued = 1",
    "active_run_id = gen_random_uuid()",
    "queued = 16, active_run_id = gen_random_uuid()",
    "archived_at = now()",
    "last_seq = 7, last_message_seq = 3",
];

fn random_post(random: &mut fastrand::Rng) -> Post {
    let versions = [None, Some(vec![]), Some(vec![0]), Some(vec![7, 9])];
    Post {
        state: STATES[random.usize(..STATES.len())],
        key: random.bool().then(|| format!("key {}", random.u8(..))),
        has_worker: random.bool(),
        may_wait: random.bool(),
        versions: versions[random.usize(..versions.len())].clone(),
        text: format!("\"quoted\" \\ 'text' \u{1F600} {}", random.u32(..)),
    }
}

impl Bed {
    async fn in_state(&self, state: &'static str) -> Self {
        let other = self.other().await;
        sqlx::query(sqlx::AssertSqlSafe(format!("UPDATE sessions SET {state} WHERE id = $1")))
            .bind(other.session.as_uuid())
            .execute(&self.pool)
            .await
            .unwrap();
        other
    }

    /// All that is stored for the session, without ids and times.
    async fn stored(&self) -> Vec<String> {
        let query = "
            SELECT row(last_seq, last_message_seq, queued, active_run_id IS NULL)::text
            FROM sessions WHERE id = $1
            UNION ALL
            SELECT row(status, attempt, lease_owner IS NULL, lease_until > now(), started_at IS NULL,
                       accepted_seq, message_id, input::text, options::text, idempotency_key,
                       client_message_id, fingerprint)::text
            FROM runs WHERE session_id = $1
            UNION ALL
            SELECT row(seq, role, message_id, content::text, attempt)::text
            FROM messages WHERE session_id = $1
            UNION ALL
            (SELECT row(seq, run_id IS NULL, type, body::text)::text
             FROM events WHERE session_id = $1 ORDER BY seq)";
        let query = sqlx::query_scalar(query).bind(self.session.as_uuid());
        query.fetch_all(&self.pool).await.unwrap()
    }
}

/// Sends messages to new sessions with as many statements as there are groups. Returns what the client
/// sees of each and what is stored.
async fn send(bed: &Bed, posts: &[Post], group_size: usize) -> Vec<(String, Vec<String>)> {
    let mut beds = Vec::new();
    for post in posts {
        beds.push(bed.in_state(post.state).await);
    }
    let events: Vec<NewEvent> = posts.iter().map(|post| user_message(&post.text)).collect();
    let (options, worker) = (RunOptions::default(), WorkerId::new());
    let inputs: Vec<String> = posts.iter().map(|post| input(&post.text)).collect();
    let news: Vec<NewRun<'_>> = (0..posts.len())
        .map(|n| NewRun {
            id: RunId::new(),
            tenant: TenantId::DEFAULT,
            session_id: beds[n].session,
            message_id: "msg_1",
            input: &inputs[n],
            options: &options,
            idempotency_key: posts[n].key.as_deref(),
            client_message_id: None,
            fingerprint: b"f",
            event: &events[n],
            request_event: EventId::new(),
            worker: posts[n].has_worker.then_some(worker),
            may_wait: posts[n].may_wait,
            versions: posts[n].versions.as_deref(),
        })
        .collect();
    let mut conn = bed.pool.acquire().await.unwrap();
    let mut statuses = Vec::new();
    for group in news.chunks(group_size) {
        let group: Vec<_> = group.iter().map(|new| EncodedAccept::of(new).unwrap()).collect();
        let group: Vec<_> = group.iter().collect();
        statuses.extend(EncodedAccept::write_all(&mut conn, &group).await.unwrap());
    }
    let mut results = Vec::new();
    for ((status, new), bed) in statuses.into_iter().zip(&news).zip(&beds) {
        results.push((seen(bed, status, new).await, bed.stored().await));
    }
    results
}

fn input(text: &str) -> String {
    serde_json::json!([{"type": "text", "text": text}]).to_string()
}

fn user_message(text: &str) -> NewEvent {
    let content = Content::parse(input(text)).unwrap();
    NewEvent::with_id(
        "msg_1".into(),
        &EventBody::UserMessage { content, message_id: None, retry_of: None },
    )
}

/// The outcome as the client sees it. The events must be those that are stored.
async fn seen(bed: &Bed, status: AcceptStatus, new: &NewRun<'_>) -> String {
    let Accepted::Run(run) = status.into_accepted(new).unwrap() else { return "refused".into() };
    let after = run.frames[0].seq - 1;
    let range = EventRange { session_id: bed.session, run_id: None, after, limit: 10 };
    let stored = events::list(&mut bed.pool.acquire().await.unwrap(), range).await.unwrap();
    let json = |frames: &[crate::domain::event::Frame]| -> Vec<_> {
        frames.iter().map(crate::domain::event::Frame::sse).collect()
    };
    assert_eq!(json(&run.frames), json(&stored));
    let begun = run.begun.map(|begun| {
        (begun.last_message_seq, begun.settings.model, begun.permissions, begun.is_budgeted)
    });
    format!("{} {after} {begun:?}", run.queued)
}

#[tokio::test]
async fn each_message_of_a_group_has_the_outcome_that_it_has_alone() {
    let bed = bed().await;
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let posts: Vec<Post> = (0..16).map(|_| random_post(&mut random)).collect();
        let together = send(&bed, &posts, 16).await;
        let alone = send(&bed, &posts, 1).await;
        for ((post, together), alone) in posts.iter().zip(&together).zip(&alone) {
            assert_eq!(together, alone, "seed {seed}: {post:?}");
        }
    }
}

#[tokio::test]
async fn statements_for_one_session_at_the_same_time_see_each_other_and_keep_its_limits() {
    let bed = bed().await;
    let (options, event) = (RunOptions::default(), user_message("hi"));
    let post = async || {
        let new = NewRun {
            id: RunId::new(),
            tenant: TenantId::DEFAULT,
            session_id: bed.session,
            message_id: "msg_1",
            input: r#"[{"type":"x"}]"#,
            options: &options,
            idempotency_key: None,
            client_message_id: None,
            fingerprint: b"f",
            event: &event,
            request_event: EventId::new(),
            worker: Some(WorkerId::new()),
            may_wait: true,
            versions: None,
        };
        let encoded = EncodedAccept::of(&new).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            let mut conn = bed.pool.acquire().await.unwrap();
            let status = write_group(&mut conn, &[&encoded]).await.unwrap().remove(0);
            if matches!(status, AcceptStatus::Skipped) {
                assert!(tokio::time::Instant::now() < deadline);
                continue;
            }
            return match status.into_accepted(&new).unwrap() {
                Accepted::Run(run) => Some((run.begun.is_some(), run.frames[0].seq)),
                Accepted::Refused | Accepted::Repeated => None,
            };
        }
    };
    let posts = futures::future::join_all((0..60).map(|_| post())).await;
    let mut accepted: Vec<(bool, i64)> = posts.into_iter().flatten().collect();
    accepted.sort_by_key(|(_, seq)| *seq);
    let queued = (4..4 + i64::from(MAX_QUEUED)).map(|seq| (false, seq));
    let expected: Vec<(bool, i64)> = [(true, 1)].into_iter().chain(queued).collect();
    assert_eq!(accepted, expected);
}
