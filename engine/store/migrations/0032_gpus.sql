-- What GPUs a validator last said that its machine has: a list in JSON; empty: it never said.
ALTER TABLE seen ADD COLUMN gpus text NOT NULL DEFAULT '';
