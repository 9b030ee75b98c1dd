use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use super::*;

/// The environment variable with the data directory of the process to kill.
const VICTIM: &str = "TWOSTEP_TEST_VICTIM_DATA_DIR";

/// A folder that root's unprivileged user can enter as well.
fn folder() -> TempDir {
    let dir = tempfile::Builder::new().prefix("twostep-test-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn options(data_dir: PathBuf, durability: Durability) -> Options {
    let bin_dir = env::var_os("PG_BIN_DIR").map(PathBuf::from);
    Options { data_dir, bin_dir, search_path: env::var_os("PATH"), durability }
}

async fn connect(server: &PrivatePostgres) -> PgConnection {
    PgConnection::connect_with(&server.connect_options()).await.unwrap()
}

async fn count(server: &PrivatePostgres) -> i64 {
    let mut conn = connect(server).await;
    sqlx::query_scalar("SELECT count(*) FROM kept").fetch_one(&mut conn).await.unwrap()
}

async fn gone_within(path: &Path, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    while path.exists() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(10)).await;
    }
    true
}

/// Kills the server process from outside.
fn kill(data_dir: &Path) {
    let pid_file = fs::read_to_string(data_dir.join("pg/postmaster.pid")).unwrap();
    let pid = pid_file.lines().next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_killed_server_is_restarted() {
    let dir = folder();
    // The path of the second one is too long for a socket.
    for data_dir in [dir.path().join("data"), dir.path().join("d".repeat(90))] {
        let options = options(data_dir.clone(), Durability::Durable);
        let server = PrivatePostgres::start(&options).await.unwrap();
        let connect_options = server.connect_options();
        let mut conn = connect(&server).await;
        sqlx::raw_sql("CREATE TABLE kept AS SELECT 1 AS id").execute(&mut conn).await.unwrap();
        let stop = CancellationToken::new();
        let kept = tokio_util::task::TaskTracker::new().spawn(server.supervise(stop.clone()));
        kill(&data_dir);
        let deadline = Instant::now() + Duration::from_mins(1);
        while conn.ping().await.is_ok() {
            assert!(Instant::now() < deadline, "the server was not killed");
        }
        while PgConnection::connect_with(&connect_options).await.is_err() {
            assert!(Instant::now() < deadline, "the server was not started again");
            sleep(Duration::from_millis(20)).await;
        }
        stop.cancel();
        let server = kept.await.unwrap().unwrap();
        assert_eq!(count(&server).await, 1);
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn data_survives_a_stop_and_a_warm_start() {
    let dir = folder();
    let options = options(dir.path().join("data"), Durability::Durable);
    let started = Instant::now();
    let server = PrivatePostgres::start(&options).await.unwrap();
    let cold = started.elapsed();
    let mut conn = connect(&server).await;
    sqlx::raw_sql("CREATE TABLE kept AS SELECT 1 AS id").execute(&mut conn).await.unwrap();
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut conn).await.unwrap();
    assert_eq!(fsync, "on");
    let (user, database): (String, String) =
        sqlx::query_as("SELECT current_user::text, current_database()::text")
            .fetch_one(&mut conn)
            .await
            .unwrap();
    assert_eq!((user.as_str(), database.as_str()), ("twostep", "twostep"));
    drop(conn);
    server.stop().await.unwrap();
    assert!(!dir.path().join("data/pg/postmaster.pid").exists());

    let started = Instant::now();
    let server = PrivatePostgres::start(&options).await.unwrap();
    let warm = started.elapsed();
    let mut conn = PgConnection::connect(&server.url()).await.unwrap();
    let kept: i32 = sqlx::query_scalar("SELECT id FROM kept").fetch_one(&mut conn).await.unwrap();
    assert_eq!(kept, 1);
    let started = Instant::now();
    server.stop().await.unwrap();
    writeln!(std::io::stderr(), "cold {cold:?}, warm {warm:?}, stop {:?}", started.elapsed())
        .unwrap();
}

#[tokio::test]
async fn a_second_server_for_one_data_directory_is_refused() {
    let dir = folder();
    let options = options(dir.path().join("data"), Durability::Durable);
    let first = PrivatePostgres::start(&options).await.unwrap();
    let second = PrivatePostgres::start(&options).await;
    assert!(matches!(&second, Err(PrivatePostgresError::InUse(at)) if at == first.data_dir()));
    connect(&first).await.ping().await.unwrap();
    first.stop().await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_is_replaced() {
    let dir = folder();
    let data_dir = dir.path().join("a-long-name-".repeat(10));
    let options = options(data_dir, Durability::Durable);
    let server = PrivatePostgres::start(&options).await.unwrap();
    let socket_dir = server.layout.socket_dir.clone();
    assert!(socket_dir.as_os_str().len() < 40, "{}", socket_dir.display());
    assert_eq!(fs::metadata(&socket_dir).unwrap().permissions().mode() & 0o777, 0o700);
    PgConnection::connect(&server.url()).await.unwrap().ping().await.unwrap();
    server.stop().await.unwrap();
    assert!(!socket_dir.exists());
}

#[tokio::test]
async fn a_throwaway_server_leaves_no_files() {
    // Directly under /tmp: the server's user, who is not root, must be able to remove it.
    let data_dir = PathBuf::from(format!("/tmp/twostep-test-{}-throwaway", std::process::id()));
    let options = options(data_dir, Durability::Throwaway);
    let server = PrivatePostgres::start(&options).await.unwrap();
    connect(&server).await.ping().await.unwrap();
    let again = PrivatePostgres::start(&options).await;
    assert!(matches!(again, Err(PrivatePostgresError::NotFresh(_))));
    drop(server); // not stopped: the watchdog does it
    assert!(gone_within(&options.data_dir, Duration::from_secs(20)).await);
}

#[tokio::test]
async fn an_interrupted_first_start_is_repeated() {
    let dir = folder();
    let data_dir = dir.path().join("data");
    fs::create_dir_all(data_dir.join("pg.new/base")).unwrap();
    fs::write(data_dir.join("pg.new/PG_VERSION"), "15\n").unwrap();
    fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o755)).unwrap();
    let server = PrivatePostgres::start(&options(data_dir, Durability::Durable)).await.unwrap();
    connect(&server).await.ping().await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_invalid_bin_dir_stops_the_start() {
    let dir = folder();
    let mut options = options(dir.path().join("data"), Durability::Durable);
    options.bin_dir = Some(dir.path().to_owned());
    let error = PrivatePostgres::start(&options).await.unwrap_err().to_string();
    let want = format!("PG_BIN_DIR: {} has no postgres", dir.path().display());
    assert_eq!(error, want);
}

/// Not a test of its own: the process that `no_acknowledged_row_is_lost` kills.
#[tokio::test]
async fn victim() {
    let Some(data_dir) = env::var_os(VICTIM) else {
        return;
    };
    let options = options(data_dir.into(), Durability::Durable);
    let server = PrivatePostgres::start(&options).await.unwrap();
    let mut conn = connect(&server).await;
    let create = "CREATE TABLE IF NOT EXISTS kept (id bigint GENERATED ALWAYS AS IDENTITY)";
    sqlx::raw_sql(create).execute(&mut conn).await.unwrap();
    loop {
        let insert = sqlx::query("INSERT INTO kept DEFAULT VALUES").execute(&mut conn);
        assert_eq!(insert.await.unwrap().rows_affected(), 1);
        // Written directly to the file: the test harness captures only the print macros.
        writeln!(std::io::stdout(), "acknowledged").unwrap();
    }
}

/// Runs the victim until it has inserted `rows` rows, kills it with SIGKILL, and returns the number
/// of acknowledged rows.
fn insert_and_kill(data_dir: &Path, rows: i64) -> i64 {
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "tests::victim"])
        .env(VICTIM, data_dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    for line in lines {
        acknowledged += i64::from(line.unwrap().ends_with("acknowledged"));
        if acknowledged == rows {
            victim.kill().unwrap();
        }
    }
    victim.wait().unwrap();
    acknowledged
}

#[tokio::test]
async fn no_acknowledged_row_is_lost() {
    let dir = folder();
    let options = options(dir.path().join("data"), Durability::Durable);
    let mut acknowledged = 0;
    for _ in 0..2 {
        acknowledged += insert_and_kill(&options.data_dir, 200);
        assert!(acknowledged >= 200, "the victim ended early: {acknowledged}");
        // Immediately, while the old server may still run.
        let started = Instant::now();
        let server = PrivatePostgres::start(&options).await.unwrap();
        writeln!(std::io::stderr(), "start after a kill {:?}", started.elapsed()).unwrap();
        let kept = count(&server).await;
        assert!(kept >= acknowledged, "{acknowledged} acknowledged, {kept} kept");
        acknowledged = kept;
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn the_server_ends_when_its_owner_is_killed() {
    let dir = folder();
    let data_dir = dir.path().join("data");
    insert_and_kill(&data_dir, 1);
    let pid_file = data_dir.join("pg/postmaster.pid");
    assert!(gone_within(&pid_file, Duration::from_secs(20)).await);
}

#[tokio::test]
async fn a_start_recovers_after_a_killed_server() {
    let dir = folder();
    let options = options(dir.path().join("data"), Durability::Durable);
    let server = PrivatePostgres::start(&options).await.unwrap();
    let mut conn = connect(&server).await;
    sqlx::raw_sql("CREATE TABLE kept AS SELECT 1 AS id").execute(&mut conn).await.unwrap();
    let pid_file = server.layout.cluster.join("postmaster.pid");
    let postmaster = predecessor::read_pid(&pid_file).unwrap();
    kill_process(postmaster, Signal::KILL).unwrap();
    // `server` stays: its dead child is a zombie, which still has its process id.
    let account = Account::choose(&server.layout.cluster).unwrap();
    let again = Server::start(&server.layout, &server.binaries, account, Durability::Durable);
    let mut again = again.unwrap();
    assert_eq!(count(&server).await, 1);
    again.stop().unwrap();
}
