//! A log whose reader has ended or does not read.

use std::fs::File;
use std::io::Read as _;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::machine::HUNG;
use crate::support::{Program, binary_logging_to, client_with, data_dir, database};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_log_has_no_reader_any_more_continues_to_serve() {
    let (database, folder) = (database().await, data_dir());
    let log = folder.path().join("log");
    mknodat(CWD, &log, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for format in ["text", "json"] {
        // Open for both, so that the program does not wait for a reader.
        let reader = File::options().read(true).write(true).open(&log).unwrap();
        let mut command = binary_logging_to(
            &log,
            &["serve", "--offline", "--bind", "127.0.0.1:0", "--log-format", format],
        );
        command.env("DATABASE_URL", database.url());
        let program = Program::serve(command).await;
        drop(reader);
        // Each request is logged.
        for _ in 0..20 {
            let response = client_with(None).get(format!("{}/v1/sessions", program.url));
            assert_eq!(response.send().await.unwrap().status(), 200, "{format}");
        }
        let (status, _) = program.terminate().await;
        assert!(status.success(), "{format}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_log_is_not_read_continues_to_serve_and_counts_the_lost_lines() {
    let (database, folder) = (database().await, data_dir());
    let log = folder.path().join("log");
    mknodat(CWD, &log, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut reader = File::options().read(true).write(true).open(&log).unwrap();
    let args = ["serve", "--offline", "--bind", "127.0.0.1:0"];
    let mut command = binary_logging_to(&log, &args);
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let client = client_with(None);
    // The log line of each request has its path. All lines are larger than the pipe and the queue.
    let url = format!("{}/v1/{}", program.url, "long".repeat(5_000));
    for _ in 0..100 {
        assert_eq!(client.get(&url).send().await.unwrap().status(), 404);
    }
    let metrics = client.get(format!("{}/metrics", program.url)).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let lost = metrics.lines().find_map(|line| line.strip_prefix("twostep_log_lines_lost_total "));
    assert!(lost.unwrap().parse::<u64>().unwrap() > 10, "{metrics}");

    // A reader that reads again gets the lines that were kept, and a line about the others.
    let (found, reported) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut part = vec![0; 65_536];
        while !String::from_utf8_lossy(&text).contains("log lines lost") {
            let bytes = reader.read(&mut part).unwrap();
            text.extend_from_slice(&part[..bytes]);
        }
        found.send(reader).unwrap();
    });
    let _reader = reported.recv_timeout(HUNG).expect("the lost lines were not reported");
    let (status, _) = program.terminate().await;
    assert!(status.success(), "{status}");
}
