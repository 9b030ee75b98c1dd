-- A request counts what its tries used, also those whose stream ended without a complete reply. Of
-- these the server has reported only a part, and the rest is estimated.
ALTER TABLE requests ADD COLUMN usage_estimated boolean NOT NULL DEFAULT false;
