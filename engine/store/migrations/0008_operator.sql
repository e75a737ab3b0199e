-- What the operator did, with the reason that was given.
CREATE TABLE operator_log (
	n      $ID,
	at     bigint NOT NULL,
	actor  text NOT NULL,
	what   text NOT NULL,
	target text NOT NULL,
	reason text NOT NULL,
	change text NOT NULL
);
