//! Steps of several runs in one statement.

use super::step_columns::request;
use super::*;
use crate::domain::budget::Budget;
use crate::domain::claim::Fence;
use crate::domain::state_change::StateChange;
use crate::store::PoolRole;
use crate::store::budgets::{self, Period};

const REPLY: &str = r#"[{"type":"x"}]"#;

impl Bed {
    /// The rows that a table has of this session, as text.
    async fn rows(&self, table: &str, column: &str) -> Vec<String> {
        let query = format!("SELECT {column}::text FROM {table} WHERE session_id = $1 ORDER BY 1");
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(query));
        query.bind(self.session.as_uuid()).fetch_all(&self.pool).await.unwrap()
    }
}

/// Writes one step of each run, and returns which of them were written.
async fn write_all(beds: &[&Bed], runs: &[&Claimed], step: &StepCommit<'_>) -> Vec<&'static str> {
    let encode =
        |(bed, run): (&&Bed, &&Claimed)| EncodedStep::of(bed.session, run.fence, 0, step).unwrap();
    let steps: Vec<EncodedStep> = beds.iter().zip(runs).map(encode).collect();
    let steps: Vec<&EncodedStep> = steps.iter().collect();
    let mut conn = beds[0].pool.acquire().await.unwrap();
    let name = |written: Written| match written {
        Written::Committed(_) => "written",
        Written::Fenced => "fenced",
        Written::Skipped => "skipped",
    };
    write(&mut conn, &steps).await.unwrap().into_iter().map(name).collect()
}

#[tokio::test]
async fn each_step_of_a_group_is_stored_in_its_own_session() {
    let first = bed().await;
    let second = first.other().await;
    let (a, b) = (first.started().await, second.started().await);
    let event = |id: &str| NewEvent::with_id(id.into(), &EventBody::StatusRunning { attempt: 7 });
    let (events_of_a, events_of_b) = ([event("evt_a")], [event("evt_b1"), event("evt_b2")]);
    let (asked, replies) = (request(), [message(Role::Assistant, REPLY)]);
    let of_a = StepCommit { events: &events_of_a, ..StepCommit::default() };
    let of_b = StepCommit {
        messages: &replies,
        planned: &[call("b1"), call("b2")],
        events: &events_of_b,
        usage: Some(asked.usage),
        request: Some(&asked),
        ..StepCommit::default()
    };
    let of_a = EncodedStep::of(first.session, a.fence, 0, &of_a).unwrap();
    let of_b = EncodedStep::of(second.session, b.fence, 0, &of_b).unwrap();
    let mut conn = first.pool.acquire().await.unwrap();
    let written = write(&mut conn, &[&of_a, &of_b]).await.unwrap();
    let numbers: Vec<Vec<i64>> = written
        .into_iter()
        .zip([&events_of_a[..], &events_of_b[..]])
        .map(|(written, events)| match written {
            Written::Committed(written) => {
                written.with_events(events).frames.iter().map(|frame| frame.seq).collect()
            }
            Written::Fenced | Written::Skipped => panic!("not written"),
        })
        .collect();
    // Accepting a message that starts has stored three events.
    assert_eq!(numbers, [vec![4], vec![4, 5]]);
    assert_eq!(first.rows("events", "event_id").await.last().unwrap(), "msg_1");
    assert!(first.rows("events", "event_id").await.contains(&"evt_a".to_owned()));
    let of_second = second.rows("events", "event_id").await;
    assert!(["evt_b1", "evt_b2"].iter().all(|id| of_second.iter().any(|stored| stored == id)));
    assert_eq!(of_second.len(), 5);
    assert_eq!(second.rows("messages", "role").await, ["assistant", "user"]);
    assert_eq!(second.rows("tool_calls", "position || tool_use_id").await, ["1b1", "2b2"]);
    assert_eq!(second.rows("requests", "output_tokens").await, ["104"]);
    assert_eq!(second.rows("runs", "output_tokens || ' ' || steps").await, ["104 1"]);
    for (table, count) in [("messages", 1), ("tool_calls", 0), ("requests", 0)] {
        assert_eq!(first.rows(table, "tenant_id").await.len(), count, "{table}");
    }
    assert_eq!(first.rows("runs", "output_tokens || ' ' || steps").await, ["0 1"]);
}

#[tokio::test]
async fn a_step_of_a_group_that_lost_its_claim_writes_nothing_and_stops_no_other() {
    let first = bed().await;
    let (second, third) = (first.other().await, first.other().await);
    let (a, mut b, c) = (first.started().await, second.started().await, third.started().await);
    b.fence.attempt += 1;
    let events = [NewEvent::new(&EventBody::StatusRunning { attempt: 1 })];
    let step = StepCommit { events: &events, ..StepCommit::default() };
    let written = write_all(&[&first, &second, &third], &[&a, &b, &c], &step).await;
    assert_eq!(written, ["written", "fenced", "written"]);
    for (bed, count) in [(&first, 4), (&second, 3), (&third, 4)] {
        assert_eq!(bed.rows("events", "seq").await.len(), count);
    }
    // Written once, however often it is sent.
    let written = write_all(&[&first, &third], &[&a, &c], &step).await;
    assert_eq!(written, ["fenced", "fenced"]);
}

#[tokio::test]
async fn a_group_leaves_out_a_locked_session_and_does_not_wait() {
    let first = bed().await;
    let second = first.other().await;
    let (a, b) = (first.started().await, second.started().await);
    let mut client = first.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM sessions WHERE id = $1 FOR UPDATE")
        .bind(first.session.as_uuid())
        .execute(&mut *client)
        .await
        .unwrap();
    let events = [NewEvent::new(&EventBody::StatusRunning { attempt: 1 })];
    let step = StepCommit { events: &events, ..StepCommit::default() };
    let written = write_all(&[&first, &second], &[&a, &b], &step).await;
    assert_eq!(written, ["skipped", "written"]);

    // On its own it waits for the client.
    let mut conn = first.pool.acquire().await.unwrap();
    let (committed, ()) =
        tokio::join!(commit(&mut conn, first.session, a.fence, 0, &step), async {
            until_a_lock_is_waited_for(&first.pool).await;
            client.commit().await.unwrap();
        });
    assert!(committed.unwrap().is_some());
}

#[tokio::test]
async fn both_variants_of_the_statement_store_the_same() {
    let first = bed().await;
    let second = first.other().await;
    let event = NewEvent::with_id("evt_1".into(), &EventBody::StatusRunning { attempt: 7 });
    let (events, asked, replies) = ([event], request(), [message(Role::Assistant, REPLY)]);
    let reads = [StateChange::FileRead { path: "a.txt".into(), hash: b"h".to_vec() }];
    let mut stored = Vec::new();
    for (bed, is_budgeted) in [(&first, true), (&second, false)] {
        let run = bed.started().await;
        let step = StepCommit {
            messages: &replies,
            planned: &[call("a"), call("b")],
            events: &events,
            usage: Some(asked.usage),
            request: Some(&asked),
            state_changes: &reads,
            is_budgeted,
            ..StepCommit::default()
        };
        assert_eq!(write_all(&[bed], &[&run], &step).await, ["written"]);
        let mut rows = bed.rows("events", "seq || type").await;
        for (table, columns) in [
            ("runs", "steps || ' ' || output_tokens || ' ' || last_request || status"),
            ("messages", "seq || role || content"),
            ("tool_calls", "message_seq || ' ' || position || tool_use_id || name || state"),
            ("requests", "n || model || output_tokens || body_length"),
            ("seen_files", "path || encode(hash, 'hex')"),
        ] {
            let of_table = bed.rows(table, columns).await;
            assert!(!of_table.is_empty(), "{table}");
            rows.extend(of_table);
        }
        let session = "SELECT last_seq, last_message_seq, output_tokens FROM sessions WHERE id = ";
        rows.push(bed.row(&format!("{session}'{}'", bed.session.as_uuid())).await.to_string());
        stored.push(rows);
    }
    assert_eq!(stored[0], stored[1]);
}

#[tokio::test]
async fn a_step_that_knows_of_no_budget_is_left_out_if_there_is_one() {
    let bed = bed().await;
    let run = bed.started().await;
    let mut conn = bed.pool.acquire().await.unwrap();
    let budget = Budget { tokens: Some(1_000_000), cost: None };
    budgets::set(&mut conn, TenantId::DEFAULT, Period::Total, budget).await.unwrap();
    let asked = request();
    let step = StepCommit {
        usage: Some(asked.usage),
        request: Some(&asked),
        is_budgeted: false,
        ..StepCommit::default()
    };
    assert_eq!(write_all(&[&bed], &[&run], &step).await, ["skipped"]);
    assert_eq!(bed.steps(&run).await, 0);

    // On its own it is written, and the budget counts its request.
    let committed = commit(&mut conn, bed.session, run.fence, 0, &step).await.unwrap().unwrap();
    assert!(committed.is_budgeted);
    let spent = "SELECT tokens::int, spent_at IS NOT NULL AS is_spent FROM reservations";
    let expected = serde_json::json!({ "tokens": 101 + 102 + 103 + 104, "is_spent": true });
    assert_eq!(bed.row(spent).await, expected);
}

#[tokio::test]
async fn the_plan_of_a_step_reads_runs_and_sessions_by_key_even_if_they_were_empty() {
    let database = database().await;
    let pool = crate::store::pool(&database.options(), PoolRole::Worker);
    let mut conn = pool.acquire().await.unwrap();
    let fence = Fence { run_id: RunId::new(), attempt: 1, worker: WorkerId::new() };
    for is_budgeted in [true, false] {
        let step = StepCommit { is_budgeted, ..StepCommit::default() };
        let step = EncodedStep::of(SessionId::new(), fence, 0, &step).unwrap();
        let written = write(&mut conn, &[&step]).await.unwrap();
        assert!(matches!(written[..], [Written::Skipped]));
    }
    let prepared = "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements
                    WHERE statement LIKE 'WITH p AS%'";
    let prepared: Vec<(String, i32)> =
        sqlx::query_as(prepared).fetch_all(&mut *conn).await.unwrap();
    assert_eq!(prepared.len(), 2);
    for (name, parameters) in prepared {
        let nulls = vec!["NULL"; usize::try_from(parameters).unwrap()].join(", ");
        let explain = format!("EXPLAIN (COSTS off) EXECUTE {name} ({nulls})");
        let plan: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(explain))
            .persistent(false)
            .fetch_all(&mut *conn)
            .await
            .unwrap();
        let scans: Vec<&str> = plan
            .iter()
            .map(|line| line.trim().trim_start_matches("->  "))
            .filter(|line| line.contains(" on runs") || line.contains(" on sessions"))
            .filter(|line| line.contains("Scan"))
            .collect();
        assert_eq!(scans.len(), 3, "{plan:#?}");
        for scan in scans {
            let is_by_key = ["runs_pkey", "sessions_pkey", "sessions_id_tenant_id_key"]
                .iter()
                .any(|key| scan.starts_with(&format!("Index Scan using {key} ")));
            assert!(is_by_key, "{scan} in {plan:#?}");
        }
    }
}
