use super::*;

#[tokio::test]
async fn a_reply_and_its_ledger_rows_are_stored_together_and_kept_byte_for_byte() {
    let bed = bed().await;
    let worker = Some(WorkerId::new());
    let Accepted::Run(accepted) = bed.post(None, worker).await else { panic!("refused") };
    let run = accepted.begun.unwrap();
    let content =
        "[{\"type\":\"tool_use\",  \"id\":\"b\",\"name\":\"f\",\"input\":{\"n\":1e3,\"n\":2}}]";
    let reply = [message(Role::Assistant, content)];
    let planned = [call("b"), call("a")];
    let step = StepCommit {
        messages: &reply,
        planned: &planned,
        usage: Some(reply[0].message.usage),
        ..StepCommit::default()
    };
    assert!(bed.commit(&run, &step).await);
    let mut conn = bed.pool.acquire().await.unwrap();
    let stored = messages::list_of_run(&mut conn, run.fence.run_id).await.unwrap();
    assert_eq!(stored[1].message.content.as_str(), content);
    assert_eq!(stored[1].message.usage.output_tokens, 7);
    let rows = tool_calls::list(&mut conn, bed.session, 2).await.unwrap();
    let states: Vec<_> = rows.iter().map(|row| (row.tool_use_id.as_str(), row.state)).collect();
    assert_eq!(states, [("b", CallState::Planned), ("a", CallState::Planned)]);

    // A repeated call violates a key, and then nothing of the step is stored.
    let twice = [call("c"), call("c")];
    let broken = StepCommit { messages: &reply, planned: &twice, ..StepCommit::default() };
    assert!(commit(&mut conn, bed.session, run.fence, 1, &broken).await.is_err());
    assert_eq!(messages::list_of_run(&mut conn, run.fence.run_id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_ledger_keeps_the_facts_that_a_takeover_needs() {
    let bed = bed().await;
    let Accepted::Run(accepted) = bed.post(None, Some(WorkerId::new())).await else {
        panic!("refused")
    };
    let run = accepted.begun.unwrap();
    let reply = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let planned = [call("a")];
    let step = StepCommit { messages: &reply, planned: &planned, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let change = ChangeRecord {
        path: "a.txt".into(),
        before: None,
        after: b"after".to_vec(),
        result: "Written.".into(),
    };
    let started = [CallRecord {
        is_execution: true,
        change: Some(change),
        ..CallRecord::new("a", CallState::Started)
    }];
    let step = StepCommit { recorded_message_seq: 2, recorded: &started, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let done = [CallRecord { result: Some("ok".into()), ..CallRecord::new("a", CallState::Done) }];
    let step = StepCommit { recorded_message_seq: 2, recorded: &done, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let mut conn = bed.pool.acquire().await.unwrap();
    let row = tool_calls::list(&mut conn, bed.session, 2).await.unwrap().remove(0);
    assert_eq!((row.state, row.result.as_deref()), (CallState::Done, Some("ok")));
    assert_eq!((row.hash_before, row.hash_after), (None, Some(b"after".to_vec())));
    assert_eq!(row.change, Some(("a.txt".into(), "Written.".into())));
    let executions: i32 = sqlx::query_scalar("SELECT executions FROM tool_calls")
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    assert_eq!(executions, 1);
}

/// Waits until a session waits for a lock.
pub(in crate::store) async fn until_a_lock_is_waited_for(pool: &PgPool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(pool).await.unwrap() {
        assert!(tokio::time::Instant::now() < deadline, "no session waits for a lock");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_call_is_not_given_up_before_a_pending_answer_is_committed() {
    let bed = bed().await;
    let Accepted::Run(accepted) = bed.post(None, Some(WorkerId::new())).await else {
        panic!("refused")
    };
    let run = accepted.begun.unwrap();
    let reply = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let planned = [call("a")];
    let step = StepCommit { messages: &reply, planned: &planned, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let (awaits, within) = (Awaits::Approval, Duration::ZERO);
    let wait = Some(NewWait { awaits, within, reason: None, diff: None });
    let waiting = [CallRecord { wait, ..CallRecord::new("a", CallState::Planned) }];
    let stop_reason = StopReason::RequiresAction { event_ids: vec!["a".into()] };
    let waits = Some(&stop_reason);
    let (recorded, recorded_message_seq) = (&waiting[..], 2);
    let step = StepCommit { recorded_message_seq, recorded, waits, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);

    let mut answering = bed.pool.begin().await.unwrap();
    let ids = ["a".to_owned()];
    let calls = lock_calls(&mut answering, TenantId::DEFAULT, bed.session, &ids).await.unwrap();
    let allow = NewDecision { decision: Decision::Allow, message: None, input: None };
    decide(&mut answering, &calls.unwrap()[0], &allow).await.unwrap();
    let mut conn = bed.pool.acquire().await.unwrap();
    let (rows, ()) = tokio::join!(tool_calls::list_final(&mut conn, bed.session, 2), async {
        until_a_lock_is_waited_for(&bed.pool).await;
        answering.commit().await.unwrap();
    });
    let wait = rows.unwrap()[0].wait.clone().unwrap();
    assert_eq!((wait.is_overdue, wait.decision), (true, Some(Decision::Allow)));
}

#[tokio::test]
async fn a_worker_and_a_client_of_a_deleted_session_write_nothing() {
    let bed = bed().await;
    bed.posted().await;
    let worker = WorkerId::new();
    let run = bed.claim(worker).await.remove(0);
    let (steps, fence) = (bed.steps(&run).await, run.fence);
    let mut conn = bed.pool.acquire().await.unwrap();
    session_deletion::delete(&mut conn, TenantId::DEFAULT, &[bed.session]).await.unwrap();

    let events = [NewEvent::new(&EventBody::StatusRunning { attempt: 1 })];
    let step = StepCommit { events: &events, ..StepCommit::default() };
    assert!(commit(&mut conn, bed.session, fence, steps, &step).await.unwrap().is_none());
    assert_eq!(commit_status(&mut conn, fence, steps).await.unwrap(), CommitStatus::Fenced);
    assert_eq!(renew(&mut conn, worker, &[fence.run_id]).await.unwrap(), []);
    assert!(matches!(bed.post(None, None).await, Accepted::Refused));
    let left: i64 =
        sqlx::query_scalar("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM runs)")
            .fetch_one(&mut *conn)
            .await
            .unwrap();
    assert_eq!(left, 0);
}
