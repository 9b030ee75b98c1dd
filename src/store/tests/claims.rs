use super::*;
use crate::domain::call_end::RunEnd;

#[tokio::test]
async fn two_claimers_never_get_the_same_run() {
    let bed = bed().await;
    bed.posted().await;
    let (one, two) = tokio::join!(bed.claim(WorkerId::new()), bed.claim(WorkerId::new()));
    assert_eq!(one.len() + two.len(), 1);
}

#[tokio::test]
async fn a_session_has_one_live_run_and_the_others_follow_in_order() {
    let bed = bed().await;
    let posted = [bed.posted().await, bed.posted().await, bed.posted().await];
    assert_eq!(posted.map(|run| run.queued), [1, 2, 3]);
    let worker = WorkerId::new();
    let mut order = Vec::new();
    for _ in 0..3 {
        let [run] = <[Claimed; 1]>::try_from(bed.claim(worker).await).unwrap();
        assert!(bed.claim(worker).await.is_empty(), "only one run is live");
        assert!(bed.commit(&run, &StepCommit { dequeues: true, ..StepCommit::default() }).await);
        assert!(bed.commit(&run, &settling(&outcome())).await);
        order.push(run.fence.run_id);
    }
    assert!(order.is_sorted(), "run ids are time-ordered");
}

#[tokio::test]
async fn a_stale_attempt_writes_nothing() {
    let bed = bed().await;
    bed.posted().await;
    let zombie = bed.claim(WorkerId::new()).await.remove(0);
    bed.expire().await;
    let mut conn = bed.pool.acquire().await.unwrap();
    let holder = claim_expired(&mut conn, WorkerId::new(), Suspicion::None, 10)
        .await
        .unwrap()
        .runs
        .remove(0);
    assert_eq!((zombie.fence.attempt, holder.fence.attempt, holder.takeovers), (1, 2, 1));

    let messages = [message(Role::User, r#"[{"type":"text","text":"x"}]"#)];
    let event = [NewEvent::new(&EventBody::UserInterrupt {})];
    let step = StepCommit { messages: &messages, events: &event, ..StepCommit::default() };
    assert!(!bed.commit(&zombie, &step).await);
    assert!(!bed.commit(&zombie, &settling(&outcome())).await);
    assert_eq!((bed.count("messages").await, bed.count("events").await), (0, 1));
    assert!(bed.commit(&holder, &step).await);
    assert_eq!((bed.count("messages").await, bed.count("events").await), (1, 2));
}

#[tokio::test]
async fn a_locked_run_keeps_its_lease_and_delays_no_renewal_of_another() {
    let bed = bed().await;
    let owner = WorkerId::new();
    let (locked, other) = (bed.started_by(owner).await, bed.other().await.started_by(owner).await);
    let mut step = bed.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM runs WHERE id = $1 FOR NO KEY UPDATE")
        .bind(locked.fence.run_id.as_uuid())
        .execute(&mut *step)
        .await
        .unwrap();
    let held = [locked.fence.run_id, other.fence.run_id];
    let lease = |run_id, is_renewed| HeldLease { run_id, is_renewed, is_cancelled: false };
    let mut conn = bed.pool.acquire().await.unwrap();
    let mut leases = renew(&mut conn, owner, &held).await.unwrap();
    leases.sort_by_key(|lease| lease.is_renewed);
    assert_eq!(leases, [lease(held[0], false), lease(held[1], true)]);
    step.rollback().await.unwrap();
    let leases = renew(&mut conn, owner, &held).await.unwrap();
    assert!(leases.iter().all(|lease| lease.is_renewed), "{leases:?}");
}

#[tokio::test]
async fn a_renewed_lease_is_kept_and_a_released_one_is_taken_over_at_once() {
    let bed = bed().await;
    bed.posted().await;
    let owner = WorkerId::new();
    let run = bed.claim(owner).await.remove(0);
    let mut conn = bed.pool.acquire().await.unwrap();
    bed.expire().await;
    let run_id = run.fence.run_id;
    let renewed = HeldLease { run_id, is_renewed: true, is_cancelled: false };
    assert_eq!(renew(&mut conn, owner, &[run_id]).await.unwrap(), [renewed]);
    assert!(
        claim_expired(&mut conn, WorkerId::new(), Suspicion::None, 10)
            .await
            .unwrap()
            .runs
            .is_empty()
    );
    let nothing = renew(&mut conn, owner, &[RunId::new()]).await.unwrap();
    assert_eq!(nothing, [], "a run that no worker drives expires");
    let (tenant, run_id) = (TenantId::DEFAULT, run.fence.run_id);
    runs::request_cancel(&mut conn, tenant, bed.session, run_id, RunEnd::Client).await.unwrap();
    let renewed = HeldLease { run_id, is_renewed: true, is_cancelled: true };
    assert_eq!(renew(&mut conn, owner, &[run_id]).await.unwrap(), [renewed]);
    release(&mut conn, run.fence, false).await.unwrap();
    let taken = claim_expired(&mut conn, WorkerId::new(), Suspicion::None, 10).await.unwrap().runs;
    assert_eq!((taken[0].fence.attempt, taken[0].takeovers, taken[0].is_cancelled), (2, 0, true));
}

/// Claims that the worker of each run dies, without a pause.
async fn deaths(bed: &Bed, deaths: i32) -> Claimed {
    let mut conn = bed.pool.acquire().await.unwrap();
    let mut run = None;
    for death in 1..=deaths {
        bed.expire_long_ago().await;
        let suspicion = Suspicion::after(death);
        let claims = claim_expired(&mut conn, WorkerId::new(), suspicion, 10).await.unwrap();
        let [claimed] = <[Claimed; 1]>::try_from(claims.runs).unwrap();
        assert_eq!(claimed.takeovers, death);
        run = Some(claimed);
    }
    run.unwrap()
}

#[tokio::test]
async fn a_suspect_is_claimed_only_as_one_and_after_a_pause() {
    let bed = bed().await;
    bed.posted().await;
    bed.claim(WorkerId::new()).await;
    deaths(&bed, 2).await;
    let mut conn = bed.pool.acquire().await.unwrap();
    bed.expire().await;
    for suspicion in [Suspicion::None, Suspicion::Suspected, Suspicion::Isolated] {
        let claims = claim_expired(&mut conn, WorkerId::new(), suspicion, 10).await.unwrap();
        assert!(claims.runs.is_empty(), "{suspicion:?}: the pause is not over");
    }
    bed.expire_long_ago().await;
    for (suspicion, runs) in
        [(Suspicion::None, 0), (Suspicion::Isolated, 0), (Suspicion::Suspected, 1)]
    {
        let claims = claim_expired(&mut conn, WorkerId::new(), suspicion, 10).await.unwrap();
        assert_eq!(claims.runs.len(), runs, "{suspicion:?}");
    }
}

#[tokio::test]
async fn a_run_that_is_to_fail_or_to_be_cancelled_is_claimed_without_a_pause() {
    let bed = bed().await;
    bed.posted().await;
    bed.claim(WorkerId::new()).await;
    let run = deaths(&bed, CRASH_LOOP_AFTER - 2).await;
    let mut conn = bed.pool.acquire().await.unwrap();
    runs::request_cancel(
        &mut conn,
        TenantId::DEFAULT,
        bed.session,
        run.fence.run_id,
        RunEnd::Client,
    )
    .await
    .unwrap();
    bed.expire().await;
    let claims = claim_expired(&mut conn, WorkerId::new(), Suspicion::None, 10).await.unwrap();
    assert_eq!(claims.runs[0].takeovers, CRASH_LOOP_AFTER - 1, "it is only settled");
    bed.expire().await;
    let claims = claim_expired(&mut conn, WorkerId::new(), Suspicion::Isolated, 10).await.unwrap();
    assert_eq!(claims.runs[0].takeovers, CRASH_LOOP_AFTER);
}

#[tokio::test]
async fn a_worker_that_lost_a_lease_and_is_alive_takes_the_takeover_back() {
    let bed = bed().await;
    bed.posted().await;
    let worker = WorkerId::new();
    let lost = bed.claim(worker).await.remove(0).fence;
    let mut conn = bed.pool.acquire().await.unwrap();
    let other = deaths(&bed, 1).await;
    take_back_takeovers(&mut conn, worker, &[lost]).await.unwrap();
    assert_eq!(bed.takeovers().await, 0);
    // The other worker loses it too, and reports this before anybody has claimed the run.
    bed.expire().await;
    take_back_takeovers(&mut conn, other.fence.worker, &[other.fence]).await.unwrap();
    let claims = claim_expired(&mut conn, WorkerId::new(), Suspicion::None, 10).await.unwrap();
    assert_eq!((claims.runs[0].fence.attempt, claims.runs[0].takeovers), (3, 0));
}

#[tokio::test]
async fn a_claim_after_a_wait_is_no_takeover() {
    let bed = bed().await;
    bed.posted().await;
    let run = bed.claim(WorkerId::new()).await.remove(0);
    let reply = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let planned = [call("a")];
    let step =
        StepCommit { messages: &reply, planned: &planned, dequeues: true, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let wait =
        NewWait { awaits: Awaits::Approval, within: Duration::ZERO, reason: None, diff: None };
    let recorded = [CallRecord { wait: Some(wait), ..CallRecord::new("a", CallState::Planned) }];
    let waits = StopReason::RequiresAction { event_ids: vec!["a".into()] };
    let step = StepCommit {
        recorded_message_seq: 1,
        recorded: &recorded,
        waits: Some(&waits),
        ..StepCommit::default()
    };
    assert!(bed.commit(&run, &step).await);
    let mut conn = bed.pool.acquire().await.unwrap();
    let woken = claim_woken(&mut conn, WorkerId::new(), 10).await.unwrap().runs;
    assert_eq!((woken[0].fence.attempt, woken[0].takeovers), (2, 0));
    assert_eq!(bed.takeovers().await, 0);
}

#[tokio::test]
async fn a_run_that_failed_where_it_was_executed_counts_as_taken_over() {
    let bed = bed().await;
    bed.posted().await;
    for (has_failed, takeovers) in [(true, 1), (false, 1), (true, 2)] {
        let mut claimed = bed.claim(WorkerId::new()).await;
        let mut conn = bed.pool.acquire().await.unwrap();
        let worker = WorkerId::new();
        let expired = claim_expired(&mut conn, worker, Suspicion::None, 10).await.unwrap();
        claimed.extend(expired.runs);
        let [run] = <[Claimed; 1]>::try_from(claimed).unwrap();
        release(&mut conn, run.fence, has_failed).await.unwrap();
        assert_eq!(bed.takeovers().await, takeovers);
    }
}
