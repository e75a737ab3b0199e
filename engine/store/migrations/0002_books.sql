-- The gateway's books. Spent plus the sum of holds never passes a limit; a
-- limit of 0 tokens is none. Receipts of an attempt form a chain numbered
-- from 1.

CREATE TABLE gateway_accounts (
	name         text PRIMARY KEY,
	run          text NOT NULL,
	attempt      bigint NOT NULL,
	limit_micros bigint NOT NULL,
	limit_calls  bigint NOT NULL,
	limit_tokens bigint NOT NULL,
	limit_ms     bigint NOT NULL,
	spent_micros bigint NOT NULL DEFAULT 0,
	spent_calls  bigint NOT NULL DEFAULT 0,
	spent_tokens bigint NOT NULL DEFAULT 0,
	opened_at    bigint NOT NULL,
	closed       bigint NOT NULL DEFAULT 0
);
CREATE INDEX gateway_accounts_run ON gateway_accounts (run, attempt);
CREATE INDEX gateway_accounts_open ON gateway_accounts (name) WHERE closed = 0;

CREATE TABLE gateway_holds (
	account text NOT NULL,
	call    text NOT NULL,
	micros  bigint NOT NULL,
	calls   bigint NOT NULL,
	tokens  bigint NOT NULL,
	PRIMARY KEY (account, call)
);

CREATE TABLE gateway_receipts (
	run     text NOT NULL,
	attempt bigint NOT NULL,
	n       bigint NOT NULL,
	account text NOT NULL,
	body    text NOT NULL,
	PRIMARY KEY (run, attempt, n)
);
