use super::*;

#[tokio::test]
async fn events_are_numbered_without_a_gap_under_concurrent_writers() {
    let bed = bed().await;
    let posts = futures::future::join_all((0..8).map(|_| bed.posted())).await;
    assert_eq!(posts.len(), 8);
    let runs: Vec<RunId> = {
        let mut conn = bed.pool.acquire().await.unwrap();
        let filter = runs::RunFilter {
            tenant: TenantId::DEFAULT,
            session_id: bed.session,
            only: None,
            status: None,
            slice: Slice::first(100),
        };
        runs::list(&mut conn, filter).await.unwrap().iter().map(|run| run.id).collect()
    };
    let append = async |run_id: RunId| {
        let events = [(); 5].map(|()| NewEvent::new(&EventBody::UserInterrupt {}));
        let mut conn = bed.pool.acquire().await.unwrap();
        events::append(&mut conn, bed.session, Some(run_id), &events).await.unwrap();
    };
    futures::future::join_all(runs.into_iter().map(append)).await;
    let range = EventRange { session_id: bed.session, run_id: None, after: 0, limit: 1000 };
    let frames = events::list(&mut bed.pool.acquire().await.unwrap(), range).await.unwrap();
    let numbers: Vec<i64> = frames.iter().map(|frame| frame.seq).collect();
    assert_eq!(numbers, (1..=48).collect::<Vec<i64>>());
}

#[tokio::test]
async fn events_are_read_up_to_a_number_or_a_size_and_the_last_part_is_marked() {
    let bed = bed().await;
    let run = bed.posted().await.frames[0].run_id.unwrap();
    let small = NewEvent::new(&EventBody::UserInterrupt {});
    let large = Content::text(&"x".repeat(1000)).unwrap();
    let large = NewEvent::new(&EventBody::AgentMessage {
        content: large,
        interrupted: false,
        message_id: None,
    });
    let mut conn = bed.pool.acquire().await.unwrap();
    let all = [&small, &small, &large, &small, &large].map(Clone::clone);
    events::append(&mut conn, bed.session, Some(run), &all).await.unwrap();
    let mut read = async |run_id, after, limit, bytes| {
        let range = EventRange { session_id: bed.session, run_id, after, limit };
        let piece = events::read_some(&mut conn, range, bytes).await.unwrap();
        let numbers: Vec<i64> = piece.frames.iter().map(|frame| frame.seq).collect();
        (numbers, piece.is_last)
    };
    assert_eq!(read(None, 1, 100, 1_000_000).await, (vec![2, 3, 4, 5, 6], true));
    assert_eq!(read(None, 1, 2, 1_000_000).await, (vec![2, 3], false));
    assert_eq!(read(None, 1, 100, 1000).await, (vec![2, 3, 4], false));
    assert_eq!(read(None, 3, 100, 1).await, (vec![4], false));
    assert_eq!(read(Some(run), 5, 100, 1000).await, (vec![6], false));
    assert_eq!(read(None, 6, 100, 1000).await, (vec![], true));
    assert_eq!(read(Some(RunId::new()), 1, 100, 1000).await, (vec![], true));
}
