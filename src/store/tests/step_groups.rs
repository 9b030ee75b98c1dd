//! Steps of several runs in one statement.

use super::step_columns::request;
use super::*;

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
            steps::until_a_lock_is_waited_for(&first.pool).await;
            client.commit().await.unwrap();
        });
    assert!(committed.unwrap().is_some());
}
