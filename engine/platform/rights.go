package platform

import (
	"context"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// Who may read what is one table. Every read asks it.

// Role is what a caller is to one submission.
type Role string

// Roles. A validator is one that holds or held a lease on the submission, or
// for tasks one with a permit in the arena; to other submissions it is a rival.
const (
	RolePublic    Role = "public"
	RoleMiner     Role = "miner" // the owner
	RoleRival     Role = "rival"
	RoleValidator Role = "validator"
	RoleOperator  Role = "operator"
)

// Roles lists every role.
var Roles = []Role{RolePublic, RoleMiner, RoleRival, RoleValidator, RoleOperator}

// Stage is how far a submission has come, as far as reading goes.
type Stage string

// Stages. A refused or excluded submission stays at StagePlaying: it was never
// decided on its merit, so its files stay its miner's.
const (
	StageQueued  Stage = "queued"
	StagePlaying Stage = "playing"
	StageDecided Stage = "decided"
)

// Stages lists every stage.
var Stages = []Stage{StageQueued, StagePlaying, StageDecided}

// What is a class of things to read.
type What string

// Classes. Progress is that a run exists, its states, times, scores and
// faults. Hidden is everything of a hidden task: its data, and logs, traces
// and evidence of runs on it, which would show it.
const (
	WhatProgress What = "progress"
	WhatCode     What = "code"
	WhatLogs     What = "logs"
	WhatTraces   What = "traces"
	WhatEvidence What = "evidence"
	WhatTask     What = "task"
	WhatHidden   What = "hidden"
)

// Whats lists every class.
var Whats = []What{WhatProgress, WhatCode, WhatLogs, WhatTraces, WhatEvidence, WhatTask, WhatHidden}

var (
	all   = Roles
	party = []Role{RoleMiner, RoleValidator, RoleOperator}
	owner = []Role{RoleMiner, RoleOperator}
	staff = []Role{RoleValidator, RoleOperator}
)

// rights is the table.
var rights = map[What]map[Stage][]Role{
	WhatProgress: {StageQueued: all, StagePlaying: all, StageDecided: all},
	WhatCode:     {StageQueued: owner, StagePlaying: party, StageDecided: all},
	WhatLogs:     {StageQueued: owner, StagePlaying: party, StageDecided: all},
	WhatTraces:   {StageQueued: owner, StagePlaying: party, StageDecided: all},
	WhatEvidence: {StageQueued: owner, StagePlaying: party, StageDecided: all},
	WhatTask:     {StageQueued: all, StagePlaying: all, StageDecided: all},
	WhatHidden:   {StageQueued: staff, StagePlaying: staff, StageDecided: staff},
}

// MayRead answers one cell of the table; what is not in it is refused.
func MayRead(w What, s Stage, r Role) bool { return slices.Contains(rights[w][s], r) }

// StageOf maps the state of a submission to its stage.
func StageOf(s agon.SubmissionState) Stage {
	switch s {
	case agon.SubmissionQueued:
		return StageQueued
	case agon.SubmissionScored:
		return StageDecided
	}
	return StagePlaying
}

// stageOf is the stage that a submission is in for its readers: under an
// arena's embargo a decided one is still as it was while it was played.
func (p *Platform) stageOf(tx *store.Tx, e agon.Submission) (Stage, error) {
	s := StageOf(e.State)
	if s != StageDecided || !p.embargoes.Load() {
		return s, nil
	}
	a, err := tx.Arena(e.Arena)
	if err != nil {
		return "", err
	}
	if a.Embargo > 0 && p.now().Before(e.CreatedAt.Add(time.Duration(a.Embargo)*time.Hour)) {
		return StagePlaying, nil
	}
	return s, nil
}

// findEmbargoes notes whether an arena of the store has an embargo.
func (p *Platform) findEmbargoes(ctx context.Context) error {
	return p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list, err := tx.Arenas()
		if slices.ContainsFunc(list, func(a agon.Arena) bool { return a.Embargo > 0 }) {
			p.embargoes.Store(true)
		}
		return err
	})
}

// isPublic reports whether anybody may read a submission's files.
func (p *Platform) isPublic(tx *store.Tx, e agon.Submission) (bool, error) {
	s, err := p.stageOf(tx, e)
	return err == nil && MayRead(WhatCode, s, RolePublic), err
}

// roleIn says what c is to a submission.
func roleIn(tx *store.Tx, c Caller, e agon.Submission) (Role, error) {
	switch {
	case c.Operator:
		return RoleOperator, nil
	case c.Hotkey == "":
		return RolePublic, nil
	case c.Hotkey == e.Miner:
		return RoleMiner, nil
	}
	had, err := tx.HasAttempt(e.ID, c.Hotkey)
	if err != nil {
		return "", err
	}
	if had {
		return RoleValidator, nil
	}
	return RoleRival, nil
}

// view is what one caller may read of one submission.
type view struct {
	role  Role
	stage Stage
}

func (p *Platform) viewOf(ctx context.Context, c Caller, e agon.Submission) (v view, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		v, err = p.viewIn(tx, c, e)
		return err
	})
	return v, err
}

// viewIn is viewOf in a transaction that reads anyway.
func (p *Platform) viewIn(tx *store.Tx, c Caller, e agon.Submission) (v view, err error) {
	v.stage = StageOf(e.State)
	if v.stage == StageDecided && p.embargoes.Load() {
		if v.stage, err = p.stageOf(tx, e); err != nil {
			return v, err
		}
	}
	v.role, err = roleIn(tx, c, e)
	return v, err
}

func (v view) may(w What) bool { return MayRead(w, v.stage, v.role) }

// whatOf is the class of an event. Unknown types count as traces.
func whatOf(typ string) What {
	switch typ {
	case agon.EventPhase, agon.EventBox, agon.EventScore:
		return WhatProgress
	case agon.EventOutput, agon.EventNote:
		return WhatLogs
	}
	return WhatTraces
}

// stillHidden reports whether a task of a run is hidden today. A task that the
// arena lists openly, or as retired, with the same bytes,
// or whose set has become public, has been published since; one that it no
// longer lists otherwise stays hidden, since it may come back.
func (p *Platform) stillHidden(a agon.Arena, t agon.TaskRef) bool {
	if !t.Hidden || p.wasOpened(a.ID, t.Digest) {
		return false
	}
	return !listedOpenly(a.Tasks, t) && !listedOpenly(a.Retired, t)
}

func listedOpenly(list []agon.TaskRef, t agon.TaskRef) bool {
	for i := range list { // an arena has hundreds: they are not copied for every read
		if now := &list[i]; !now.Hidden && now.Digest == t.Digest {
			return true
		}
	}
	return false
}

func (p *Platform) anyHidden(a agon.Arena, tasks []agon.TaskRef) bool {
	return slices.ContainsFunc(tasks, func(t agon.TaskRef) bool { return p.stillHidden(a, t) })
}
