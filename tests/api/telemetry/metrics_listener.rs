//! Metrics on a separate address.

use crate::support::{Program, binary, client_with, data_dir, database, problem};

#[tokio::test(flavor = "multi_thread")]
async fn metrics_with_a_separate_address_are_not_served_elsewhere() {
    let (database, folder) = (database().await, data_dir());
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.args(["--metrics-addr", "127.0.0.1:0"]).arg("--data-dir").arg(folder.path());
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let metrics_url =
        program.greeting.lines().find_map(|line| line.trim().strip_prefix("metrics "));
    let metrics_url = metrics_url.unwrap().trim();
    let base = metrics_url.strip_suffix("/metrics").unwrap();
    let client = client_with(None);

    let response = client.get(metrics_url).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["cache-control"], "private, no-store");
    assert!(response.text().await.unwrap().contains("twostep_runs_active 0"));
    for elsewhere in [format!("{}/metrics", program.url), format!("{base}/readyz")] {
        problem(client.get(elsewhere).send().await.unwrap(), 404, "route_not_found").await;
    }
    for (url, is_served) in [(&*program.url, true), (base, false)] {
        for path in ["/healthz", "/v1/sessions", "/openapi.json"] {
            let response = client.get(format!("{url}{path}")).send().await.unwrap();
            assert_eq!(response.status().is_success(), is_served, "{url}{path}");
        }
    }
    program.terminate().await;
}
