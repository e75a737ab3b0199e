package store

import (
	"strings"
	"time"
)

const replayGroup = "again "

// ReplayGroup names the runs that play a run again whose agent was said to be at fault.
func ReplayGroup(run string) string { return replayGroup + run }

// ReplayOf returns the run that a group plays again; "" is none.
func ReplayOf(group string) string {
	run, ok := strings.CutPrefix(group, replayGroup)
	if !ok {
		return ""
	}
	return run
}

// replayer is the condition under which v, of coldkey c, may play the replay r:
// neither it nor one of its owner has a counted play of that run.
func replayer(v, c string) string {
	return `NOT EXISTS (SELECT 1 FROM attempts a JOIN runs o ON o.id = a.run
		WHERE a.submission = r.submission AND a.run <> r.id AND (a.counted = 1 OR ` + strings.ReplaceAll(held, "state", "a.state") + `) AND (o.grp = r.grp OR o.id = substr(r.grp, 7))
		AND (a.validator = ` + v + ` OR (` + c + ` <> '' AND EXISTS (SELECT 1 FROM judges p WHERE p.arena = o.arena AND p.validator = a.validator AND p.coldkey = ` + c + `))))`
}

// HasReplayer reports whether a validator that was lately seen may play a run
// again: a stranger to who has played it, and to its miner.
func (t *Tx) HasReplayer(run string, since time.Time) (bool, error) {
	n, err := one(t, scanInt, `SELECT count(*) FROM (SELECT 1 FROM runs x JOIN submissions s ON s.id = x.submission
		JOIN seen v ON v.arena = x.arena LEFT JOIN judges k ON k.arena = x.arena AND k.validator = v.validator
		WHERE x.id = $1 AND v.at > $2 AND v.validator NOT LIKE '%:%' AND v.validator <> s.miner
		AND (x.driver = '' OR x.driver = v.driver OR v.driver = '') AND (COALESCE(k.coldkey, '') = '' OR k.coldkey <> s.coldkey)
		AND NOT EXISTS (SELECT 1 FROM attempts a JOIN runs o ON o.id = a.run WHERE a.submission = x.submission AND a.counted = 1
			AND (o.id = x.id OR o.grp = 'again ' || x.id) AND (a.validator = v.validator OR (COALESCE(k.coldkey, '') <> '' AND EXISTS (
				SELECT 1 FROM judges p WHERE p.arena = x.arena AND p.validator = a.validator AND p.coldkey = k.coldkey)))) LIMIT 1) y`,
		run, micros(since))
	return n > 0, err
}

// LiveReplay returns the replay of a run that has not ended, or ErrNotFound.
func (t *Tx) LiveReplay(run string) (Run, error) {
	return one(t, t.scanRun, `SELECT `+runColumns+runFrom+`WHERE r.submission = (SELECT submission FROM runs WHERE id = $1) AND r.grp = 'again ' || $1 AND `+live+` LIMIT 1`, run)
}

// DrawnReplays counts the faults of an arena that others were asked to play again since a time.
func (t *Tx) DrawnReplays(arena string, since time.Time) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM judgings WHERE arena = $1 AND why = 'fault' AND k = 2 AND created_at > $2`, arena, micros(since))
}

// FaultElsewhere reports whether another than player has seen an agent at fault.
func (t *Tx) FaultElsewhere(submission, player string) (bool, error) {
	n, err := one(t, scanInt, `SELECT count(*) FROM (SELECT 1 FROM attempts WHERE submission = $1 AND counted = 1 AND fault = 'agent' AND validator <> $2 LIMIT 1) x`,
		submission, player)
	return n > 0, err
}

// HasFaultCase reports whether a fault of an agent of the same owner is a case against a validator already.
func (t *Tx) HasFaultCase(validator, submission string, since time.Time) (bool, error) {
	n, err := one(t, scanInt, `SELECT count(*) FROM (SELECT 1 FROM judgings j JOIN submissions s ON s.id = j.submission JOIN submissions o ON o.id = $2
		WHERE j.against <> '' AND j.against = $1 AND j.ended_at > $3 AND j.why = 'fault'
		AND (s.miner = o.miner OR (o.coldkey <> '' AND s.coldkey = o.coldkey)) LIMIT 1) x`, validator, submission, micros(since))
	return n > 0, err
}
