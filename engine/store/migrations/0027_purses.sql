-- Money that the operator holds for coldkeys, as movements: a balance is their
-- sum. A payment from outside counts once.
CREATE TABLE purse_postings (
	n $ID, coldkey text NOT NULL, what text NOT NULL, micros bigint NOT NULL, submission text NOT NULL, payment text NOT NULL, reason text NOT NULL, at bigint NOT NULL
);
CREATE INDEX purse_coldkey ON purse_postings (coldkey, n);
CREATE INDEX purse_submission ON purse_postings (submission) WHERE submission <> '';
CREATE UNIQUE INDEX purse_payment ON purse_postings (payment) WHERE payment <> '';

-- Fees that were burnt on a ledger for a submission; back: as a free entry.
CREATE TABLE burnt_fees (
	ref text NOT NULL PRIMARY KEY, submission text NOT NULL, amount bigint NOT NULL, unit text NOT NULL, back bigint NOT NULL DEFAULT 0
);
CREATE INDEX burnt_fees_submission ON burnt_fees (submission);
