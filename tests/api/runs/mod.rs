//! Runs: the tool loop, queues, cancellation, budgets, usage and records of requests.

mod budgets;
mod busy_session;
mod call_ends;
mod cancelling;
mod cancelling_while_waiting;
mod early_requests;
mod explain;
mod fairness;
mod interrupted_replies;
mod many_runs;
mod overload;
mod prefer_wait;
mod queueing;
mod quick_calls;
mod request_duration;
mod request_records;
mod retries;
mod stop_reasons;
mod stopped_requests;
mod structured_output;
mod time_limits;
mod tool_choice;
mod tool_loop;
mod usage;
