//! The schema of the database: its migrations, and which programs work with it.
//!
//! Migrations expand the schema first and contract it in a later version, so that a program also works
//! on a schema that a later version has migrated. The table `schema_compatibility` says which programs
//! can: a migration that earlier programs cannot work with raises its number.

mod invalid_indexes;
mod lock;
mod migrate;
mod migration_error;
mod version;

pub use lock::is_migrating;
pub use migrate::apply_missing;
pub use migration_error::{MigrationError, Waits};
pub use version::{MIGRATIONS, SchemaMismatch, SchemaVersion, check_schema};
