-- How many steps of a run have been committed. A worker whose connection broke in the middle of a
-- commit cannot know its outcome; here it reads it, and a step that is sent again is written once.
ALTER TABLE runs ADD COLUMN steps integer NOT NULL DEFAULT 0;
