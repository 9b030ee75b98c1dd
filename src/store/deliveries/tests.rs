use std::time::Duration;

use sqlx::{Executor as _, PgConnection};

use super::{
    AttemptOutcome, DeliveryLimits, DueDelivery, NextAttempt, Replay, claim_due, replay, settle,
};
use crate::domain::ids::{TenantId, WebhookId};
use crate::store::testing::database;

/// Takes the only delivery that there is; at once it is due again.
async fn take(conn: &mut PgConnection) -> DueDelivery {
    let limits = DeliveryLimits { of_webhook: 8, of_tenant: 8, more: 8 };
    let mut due = claim_due(conn, &[], limits, Duration::ZERO).await.unwrap();
    assert_eq!(due.len(), 1);
    due.remove(0)
}

async fn state(conn: &mut PgConnection) -> (String, i32, Option<i32>) {
    let state = "SELECT state, attempts, last_status FROM webhook_deliveries";
    sqlx::query_as(state).fetch_one(conn).await.unwrap()
}

#[tokio::test]
async fn a_sender_from_before_a_replay_does_not_settle_the_next_attempt() {
    let database = database().await;
    let mut conn = database.pool(1).acquire().await.unwrap();
    let webhook = WebhookId::new();
    let insert = "INSERT INTO webhooks (id, tenant_id, url, events, secret)
                  VALUES ($1, $2, 'https://hooks.example/', '{run.completed}', sha256('x'))";
    let insert = sqlx::query(insert).bind(webhook.as_uuid()).bind(TenantId::DEFAULT.as_uuid());
    insert.execute(&mut *conn).await.unwrap();
    conn.execute(
        "INSERT INTO webhook_deliveries (id, webhook_id, tenant_id, event, body)
         SELECT new_id(), id, tenant_id, 'run.completed', '{}' FROM webhooks",
    )
    .await
    .unwrap();

    let (slow, next) = (take(&mut conn).await, take(&mut conn).await);
    assert_eq!((slow.attempt, next.attempt), (1, 2));
    let delivered = |due: &DueDelivery, status| AttemptOutcome {
        id: due.id,
        claimed_until: due.claimed_until,
        status: Some(status),
        error: None,
        next: NextAttempt::Delivered,
    };
    settle(&mut conn, delivered(&next, 200)).await.unwrap();
    assert_eq!(state(&mut conn).await, ("delivered".to_owned(), 2, Some(200)));

    let once_more = Replay::One(next.id);
    assert_eq!(replay(&mut conn, TenantId::DEFAULT, webhook, once_more).await.unwrap(), 1);
    let replayed = take(&mut conn).await;
    assert_eq!(replayed.attempt, slow.attempt, "attempts are counted from 1 again");
    let (error, next) = (Some("answered 500"), NextAttempt::Failed);
    settle(&mut conn, AttemptOutcome { error, next, ..delivered(&slow, 500) }).await.unwrap();
    assert_eq!(state(&mut conn).await, ("pending".to_owned(), 1, Some(200)));
    settle(&mut conn, delivered(&replayed, 204)).await.unwrap();
    assert_eq!(state(&mut conn).await, ("delivered".to_owned(), 1, Some(204)));
}
