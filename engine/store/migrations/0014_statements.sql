-- Attempts whose closing statement a gateway has signed: no session of theirs
-- opens again.
CREATE TABLE gateway_sealed (
	run     text NOT NULL,
	attempt bigint NOT NULL,
	at      bigint NOT NULL,
	PRIMARY KEY (run, attempt)
);
-- The statement that came with an attempt's result (JSON), and what is to be
-- known of how the result came: "unattested" from a foreign validator.
ALTER TABLE attempts ADD COLUMN statement text NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN mark text NOT NULL DEFAULT '';
