-- When a period's secret was committed to, and the round of drand by which its set was drawn.
ALTER TABLE seed_periods ADD COLUMN committed_at bigint NOT NULL DEFAULT 0;
ALTER TABLE seed_periods ADD COLUMN drand_round bigint NOT NULL DEFAULT 0;
ALTER TABLE seed_periods ADD COLUMN drand_signature text NOT NULL DEFAULT '';
