//! Approvals of tool calls, and the permission rules that ask for them.

mod attacks;
mod decisions;
mod permissions;
