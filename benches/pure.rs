//! The pure parts.
use criterion as _;
fn main() {}
