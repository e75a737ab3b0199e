-- The research coordinator's tables. All have one form: who and what a row is
-- about in columns, the rest as JSON. task is a task's id, owner a hotkey, ref
-- what else a row is looked up by.

CREATE TABLE research_tasks (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE TABLE research_claims (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_claims_task ON research_claims (task, n);
CREATE INDEX research_claims_active ON research_claims (owner, task) WHERE status = 'active';
CREATE TABLE research_submissions (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_submissions_task ON research_submissions (task, status, n);
CREATE INDEX research_submissions_owner ON research_submissions (owner, n);
-- The first submission of each change: id is task/hash, ref the submission.
CREATE TABLE research_changes (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE TABLE research_work_items (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_work_items_task ON research_work_items (task, status, n);
-- Leases handed to validators that speak the coordinator's wire: id is the
-- lease, ref the submission.
CREATE TABLE research_jobs (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_jobs_ref ON research_jobs (ref, n);
CREATE INDEX research_jobs_open ON research_jobs (owner) WHERE status = 'open';
-- ref is the submission, id submission/evaluator.
CREATE TABLE research_peers (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_peers_ref ON research_peers (ref, n);
-- The ledger of bests: id and ref are the submission.
CREATE TABLE research_records (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_records_task ON research_records (task, n);
-- id is the implementing submission, owner the proposer, ref the proposing submission.
CREATE TABLE research_ideas (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_ideas_task ON research_ideas (task, n);
-- Submissions of a known score: id is the submission.
CREATE TABLE research_canaries (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
-- What replays of canaries said: id is the attempt's lease, owner the validator.
CREATE TABLE research_hits (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_hits_owner ON research_hits (owner, n);
-- Versions of the reward policy, epochs of reward packages, recipients (id is the hotkey).
CREATE TABLE research_policies (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE TABLE research_epochs (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE TABLE research_packages (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_packages_ref ON research_packages (ref, n);
CREATE INDEX research_packages_owner ON research_packages (owner, n);
CREATE TABLE research_recipients (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
