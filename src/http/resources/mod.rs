//! The resources that several routes return.

mod page;
mod run;
mod session;
mod session_list_event;

pub(in crate::http) use page::Page;
pub(in crate::http) use run::{RunResource, run_path};
pub(in crate::http) use session::SessionResource;
pub(in crate::http) use session_list_event::SessionListEvent;
