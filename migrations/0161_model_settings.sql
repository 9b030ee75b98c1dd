-- The model of a session and the settings that follow from it, in place of those in `settings`, if a
-- client has changed them. `settings` stays as it was pinned: recorded requests are rebuilt from it.
ALTER TABLE sessions ADD COLUMN model_settings json;
