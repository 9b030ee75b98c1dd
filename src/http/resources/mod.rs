//! The resources that several routes return.

mod page;
mod run;
mod session;

pub(in crate::http) use page::Page;
pub(in crate::http) use run::{RunResource, run_path};
pub(in crate::http) use session::SessionResource;
