//! A log whose reader has ended.

use std::fs::File;

use rustix::fs::{CWD, FileType, Mode, mknodat};

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
