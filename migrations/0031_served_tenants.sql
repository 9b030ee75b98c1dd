-- The time at which a run of the tenant last left the queue. Of tenants with the same number of running
-- runs, the one that was served the longest ago is next: with few slots, most tenants have no running
-- run when a slot becomes free, and the one with the oldest queued runs would always be next.
ALTER TABLE tenants ADD COLUMN served_at timestamptz;
