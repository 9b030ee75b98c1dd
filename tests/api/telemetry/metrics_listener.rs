//! Figures at an address of their own.

use crate::support::{Program, binary, data_dir, database, problem};

#[tokio::test(flavor = "multi_thread")]
async fn figures_with_an_address_of_their_own_are_nowhere_else() {
    let (database, folder) = (database().await, data_dir());
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.args(["--metrics-addr", "127.0.0.1:0"]).arg("--data-dir").arg(folder.path());
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let figures = program.greeting.lines().find_map(|line| line.trim().strip_prefix("metrics "));
    let figures = figures.unwrap().trim();
    let base = figures.strip_suffix("/metrics").unwrap();

    let told = reqwest::get(figures).await.unwrap();
    assert_eq!(told.status(), 200);
    assert!(told.text().await.unwrap().contains("twostep_runs_active 0"));
    for elsewhere in [format!("{}/metrics", program.url), format!("{base}/readyz")] {
        problem(reqwest::get(elsewhere).await.unwrap(), 404, "route_not_found").await;
    }
    for (url, is_there) in [(&*program.url, true), (base, false)] {
        for path in ["/healthz", "/v1/sessions", "/openapi.json"] {
            let answer = reqwest::get(format!("{url}{path}")).await.unwrap();
            assert_eq!(answer.status().is_success(), is_there, "{url}{path}");
        }
    }
    program.terminate().await;
}
