//! The program.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use twostep::cli;

// Many small allocations a second across threads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
