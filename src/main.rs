//! The program.

use std::process::ExitCode;

use clap::Parser as _;
use mimalloc::MiMalloc;
use twostep::cli::Cli;

// Many small allocations a second across threads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
