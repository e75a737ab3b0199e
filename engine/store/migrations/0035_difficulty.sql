-- The level of a period's set and what it follows from, as JSON; '': the arena names no difficulty.
ALTER TABLE seed_periods ADD COLUMN difficulty text NOT NULL DEFAULT '';
