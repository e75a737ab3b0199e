-- Which agon a validator runs, as it says itself.
ALTER TABLE seen ADD COLUMN version text NOT NULL DEFAULT '';
