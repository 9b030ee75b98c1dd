-- What the session's events have told of the lists of tool servers: an object, by the server's name a
-- hash of how its list differs from what the session has. A server whose list is as the session has it
-- is not there. So that a change is told once, whoever goes on with the session.
ALTER TABLE sessions ADD COLUMN told_servers json;
