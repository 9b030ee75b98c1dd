use super::*;

#[tokio::test]
async fn an_idle_session_starts_at_once_and_a_busy_one_queues() {
    let bed = bed().await;
    let worker = WorkerId::new();
    let Accepted::Run(first) = bed.post(None, Some(worker)).await else { panic!("refused") };
    let begun = first.begun.expect("the run starts");
    assert_eq!((begun.fence.attempt, begun.last_message_seq, first.queued), (1, 1, 0));
    let kinds: Vec<&str> = first.frames.iter().map(|frame| frame.kind.as_str()).collect();
    assert_eq!(kinds, ["user.interrupt", "session.status_running", "span.model_request_start"]);
    let json: serde_json::Value = serde_json::from_slice(&first.frames[2].json()).unwrap();
    assert_eq!((&json["seq"], &json["model"]), (&3.into(), &"model \"x\"".into()));

    let Accepted::Run(second) = bed.post(None, Some(worker)).await else { panic!("refused") };
    assert!(second.begun.is_none());
    assert_eq!((second.queued, second.frames.len()), (1, 1));
    assert!(bed.commit(&begun, &settling(&outcome())).await);
    assert_eq!(bed.claim(worker).await.len(), 1);
}

#[tokio::test]
async fn of_many_concurrent_posts_one_starts_and_the_queue_limit_is_exact() {
    let bed = bed().await;
    let worker = Some(WorkerId::new());
    let posts = futures::future::join_all((0..60).map(|_| bed.post(None, worker))).await;
    let (mut begun, mut queued, mut refused) = (0, 0, 0);
    for post in posts {
        match post {
            Accepted::Run(run) if run.begun.is_some() => begun += 1,
            Accepted::Run(_) => queued += 1,
            Accepted::Refused => refused += 1,
            Accepted::Repeated => panic!("no key was sent"),
        }
    }
    assert_eq!((begun, queued, refused), (1, MAX_QUEUED, 60 - 1 - MAX_QUEUED));
}

#[tokio::test]
async fn of_many_posts_with_one_key_only_one_creates_a_run() {
    let bed = bed().await;
    let posts = futures::future::join_all((0..20).map(|_| bed.post(Some("k"), None))).await;
    let runs = posts.iter().filter(|post| matches!(post, Accepted::Run(_))).count();
    assert_eq!(runs, 1);
    let mut conn = bed.pool.acquire().await.unwrap();
    let earlier =
        find_earlier(&mut conn, TenantId::DEFAULT, bed.session, Some("k"), None).await.unwrap();
    assert_eq!(earlier.unwrap().fingerprint, b"f");
    assert_eq!((bed.count("runs").await, bed.count("events").await), (1, 1));
}
