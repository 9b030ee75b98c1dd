-- The user of a session in a column of its own, by which sessions are listed and browser tokens are
-- checked. A trigger copies it from the settings, so that every program and every kind of session
-- (forks, imports, sub-agents) has it. It never changes.
ALTER TABLE sessions ADD COLUMN user_name text;

CREATE FUNCTION copy_user_of_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.user_name := NEW.settings ->> 'user';
    RETURN NEW;
END
$$;

CREATE TRIGGER sessions_user BEFORE INSERT ON sessions
    FOR EACH ROW EXECUTE FUNCTION copy_user_of_session();
