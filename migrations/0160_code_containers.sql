-- The container in which the model's server runs code for a session, as `{"id", "expires_at"?}`. JSON
-- null: the session had containers and has none now. SQL null: it never had one.
ALTER TABLE sessions ADD COLUMN code_container json;
