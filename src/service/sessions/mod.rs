//! Sessions: creating, listing, changing, forking, exporting, importing and deleting them.

mod changed_model;
mod conversation;
mod create;
mod delete;
pub(crate) mod export;
mod external_id;
pub(crate) mod fork;
pub(crate) mod import;
mod list;
mod tickets;
mod update;
mod workspace_removal;

pub(crate) use conversation::{Conversation, find_known_conversation, open_conversation};
pub(crate) use create::{CreatedSession, Creation, create_session};
pub(crate) use delete::{DeleteSession, delete_session};
pub(crate) use external_id::{find_by_client_id, replace_by_fork};
pub(crate) use list::{SessionTodos, find_session, find_todos, list_forks, list_sessions};
pub(crate) use tickets::{CreateTicket, CreatedTicket, create_ticket};
pub(crate) use update::{SessionUpdate, UpdateSession, update_session};
