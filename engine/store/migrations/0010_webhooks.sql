-- Who is told of what, what is still to be told, and how far the telling has
-- come through the decisions and the operator's log.
CREATE TABLE webhooks (
	id         text PRIMARY KEY,
	url        text NOT NULL,
	types      text NOT NULL,
	created_at bigint NOT NULL,
	disabled   text NOT NULL DEFAULT ''
);
CREATE TABLE webhook_queue (
	n       $ID,
	hook    text NOT NULL,
	message text NOT NULL,
	type    text NOT NULL,
	body    text NOT NULL,
	tries   bigint NOT NULL DEFAULT 0,
	due     bigint NOT NULL
);
CREATE INDEX webhook_due ON webhook_queue (due, n);
CREATE TABLE webhook_cursor (
	one      bigint PRIMARY KEY,
	decision bigint NOT NULL,
	action   bigint NOT NULL
);
