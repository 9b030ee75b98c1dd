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
    let holder = claim_expired(&mut conn, WorkerId::new(), 10).await.unwrap().runs.remove(0);
    assert_eq!((zombie.fence.attempt, holder.fence.attempt, holder.takeovers), (1, 2, 2));

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
async fn a_renewed_lease_is_kept_and_a_released_one_is_taken_over_at_once() {
    let bed = bed().await;
    bed.posted().await;
    let owner = WorkerId::new();
    let run = bed.claim(owner).await.remove(0);
    let mut conn = bed.pool.acquire().await.unwrap();
    bed.expire().await;
    let run_id = run.fence.run_id;
    let renewed = Renewed { run_id, is_cancelled: false };
    assert_eq!(renew(&mut conn, owner, &[run_id]).await.unwrap(), [renewed]);
    assert!(claim_expired(&mut conn, WorkerId::new(), 10).await.unwrap().runs.is_empty());
    let nothing = renew(&mut conn, owner, &[RunId::new()]).await.unwrap();
    assert_eq!(nothing, [], "a run that no worker drives expires");
    let (tenant, run_id) = (TenantId::DEFAULT, run.fence.run_id);
    runs::request_cancel(&mut conn, tenant, bed.session, run_id, RunEnd::Client).await.unwrap();
    let renewed = Renewed { run_id, is_cancelled: true };
    assert_eq!(renew(&mut conn, owner, &[run_id]).await.unwrap(), [renewed]);
    release(&mut conn, run.fence, false).await.unwrap();
    let taken = claim_expired(&mut conn, WorkerId::new(), 10).await.unwrap().runs;
    assert_eq!((taken[0].fence.attempt, taken[0].takeovers, taken[0].is_cancelled), (2, 1, true));
}
