//! Approvals of tool calls, and the permission rules that ask for them.

mod attacks;
mod continued_runs;
mod decisions;
mod permissions;
