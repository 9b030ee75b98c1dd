-- A turn updates the rows of its session, its run and its calls several times. A new version of a row
-- goes on the same page if there is room, and then needs no entries in the indexes (a HOT update). The
-- setting holds for pages that are filled from now on.
ALTER TABLE sessions SET (fillfactor = 50);
ALTER TABLE runs SET (fillfactor = 70);
ALTER TABLE tool_calls SET (fillfactor = 60);
