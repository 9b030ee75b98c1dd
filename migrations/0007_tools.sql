-- Files as the model last saw them: a tool that changes a file refuses one that was never read, or
-- that somebody changed since. Kept here, so that it survives a restart and a change of worker.
CREATE TABLE seen_files (
    session_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    -- Relative to the workspace, in its plainest form.
    path       text NOT NULL,
    -- SHA-256 of the whole file.
    hash       bytea NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, path),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE
);

-- The list that the model keeps of its work; null before it has made one.
ALTER TABLE sessions ADD COLUMN todos json;
-- The permission mode as it is now, once something has changed it; null means the pinned one.
ALTER TABLE sessions ADD COLUMN permission_mode text CHECK (
    permission_mode IN ('default', 'accept_edits', 'plan', 'bypass'));
-- Rules that people made while they decided on calls: "allow this for the session".
ALTER TABLE sessions ADD COLUMN remembered json NOT NULL DEFAULT '[]';

-- Who must act before the call can go on: somebody who decides, or the client that runs it.
ALTER TABLE tool_calls ADD COLUMN awaits text CHECK (awaits IN ('approval', 'client'));
-- When a call that nobody has answered gets its default answer.
ALTER TABLE tool_calls ADD COLUMN answer_by timestamptz;
-- Why somebody is asked, and what would change of the file: for who decides.
ALTER TABLE tool_calls ADD COLUMN wait_reason text;
ALTER TABLE tool_calls ADD COLUMN diff text;
ALTER TABLE tool_calls ADD COLUMN decision text CHECK (decision IN ('allow', 'deny'));
ALTER TABLE tool_calls ADD COLUMN decided_at timestamptz;
-- Why it was denied, in the words of who decided.
ALTER TABLE tool_calls ADD COLUMN decision_message text;
-- What runs in place of the model's input, if who decided changed it. The history keeps the
-- model's own.
ALTER TABLE tool_calls ADD COLUMN input json;
-- SHA-256 of the input that was decided on, or ran: what runs is what was approved.
ALTER TABLE tool_calls ADD COLUMN input_hash bytea;
-- Blocks of a result that is more than a text. Only clients give such results.
ALTER TABLE tool_calls ADD COLUMN content json;
-- The file that a change is made to, and what the model reads when the change has happened:
-- recorded with 'started', because after a crash the change can no longer be planned again.
ALTER TABLE tool_calls ADD COLUMN change_path text;
ALTER TABLE tool_calls ADD COLUMN change_result text;
-- Of what type the failure was.
ALTER TABLE tool_calls ADD COLUMN error_type text;
-- In what confinement the call ran.
ALTER TABLE tool_calls ADD COLUMN sandbox text;
ALTER TABLE tool_calls ADD CONSTRAINT tool_calls_awaited CHECK (
    (awaits IS NULL) = (answer_by IS NULL) AND (decision IS NULL) = (decided_at IS NULL)
    AND (decision IS NULL OR awaits = 'approval'));

-- When a worker may take up a run that waits: now, once all of its calls are answered, or at the
-- first deadline of those that are not.
ALTER TABLE runs ADD COLUMN wake_at timestamptz;
ALTER TABLE runs ADD COLUMN waiting_since timestamptz;
-- Time that counts against no limit, because the run waited for people.
ALTER TABLE runs ADD COLUMN waited interval NOT NULL DEFAULT '0';
CREATE INDEX runs_waiting ON runs (wake_at) WHERE status = 'requires_action';
