//! Answers to calls that wait for the client: decisions on approvals, and results of tools.

mod approval;
mod effect;
mod result_content;
mod tool_results;

pub(in crate::service) use approval::DecideCall;
pub(crate) use approval::{ApprovalDecision, Remember, decide_approval, pending_approvals};
pub(in crate::service) use effect::AnswerEffect;
pub(crate) use effect::AnsweredRun;
pub(crate) use tool_results::{ParsedResult, ToolResultInput, add_tool_results, parse_results};
pub(in crate::service) use tool_results::{ResultSet, check_for_model};
