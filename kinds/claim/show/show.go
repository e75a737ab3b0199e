// Package show plays three living rounds of claims beside the demos of `agon up`: a reader
// takes the seat, and a miner that knows all published claims by heart has nothing of the
// next round.
package show

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
)

const (
	// Arena is the id of the arena.
	Arena = "demo-rounds"
	// Tasks is how many claims a round has, Rounds how many `agon up` shows.
	Tasks, Rounds = 4, 3

	says  = "The page says: "
	hours = 0.05 // that a round lasts
)

//go:embed reader.py
var reader []byte

var operator = platform.Caller{Operator: true}

// file is the arena's, over the documents in dir.
func file(dir string) kit.ArenaFile {
	f := kit.ArenaFile{
		ID: Arena, Kind: play.Name, Title: "Rounds: new claims every three minutes, three times", Netuid: 7, Licence: "MIT",
		Incentive: incentive.PairedRule,
		IncentiveNumbers: map[string]float64{
			incentive.NumValidators: 1, incentive.NumAgree: 1, incentive.NumAlpha: 0.05, incentive.NumEntries: 0, incentive.NumMaxPairs: 96, incentive.NumBatch: 8, incentive.NumMinGain: 0.2,
		},
		SubmissionsPerColdkey: 50, Samples: true, Judge: &kit.JudgeFile{Demo: true},
		Period: &agon.Period{Hours: hours}, Supply: &kit.SupplyFile{From: agon.SupplyFeed, Path: dir, Tasks: Tasks},
	}
	f.Policy.Budget = agon.Budget{Micros: 2_000_000, Calls: 2000}
	f.Policy.Agent.MemoryBytes = 512 << 20
	f.Defaults()
	return f
}

// Run plays so many rounds over docs, from where an earlier process with the same data ended,
// and ends when the last is decided. Then the arena is closed: nothing more is drawn.
func Run(ctx context.Context, s *kit.Server, docs fs.FS, rounds int, open func(context.Context, kit.ArenaFile) error) error {
	if a, err := s.Platform.Arena(ctx, Arena); err == nil && a.State != agon.ArenaOpen {
		return nil // it was shown
	}
	dir := s.Data.Path(Arena + "-documents")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.CopyFS(dir, docs); err != nil {
			return fmt.Errorf("write the documents of the rounds: %w", err)
		}
	}
	f := file(dir)
	s.Options.Sayf("arena %s goes on: %d rounds of claims, of three minutes each, by models that are scripts and cost nothing", Arena, rounds)
	if err := open(ctx, f); err != nil {
		return err
	}
	x := &show{s, f}
	if _, err := x.enter(ctx, "reader", reader); err != nil {
		return err
	}
	for round := 1; round < rounds; round++ {
		known, err := x.published(ctx, round)
		if err != nil {
			return err
		}
		round = max(round, len(known)/Tasks) // rounds that went by while this process did not run are not made up for
		script, err := byHeart(known)
		if err != nil {
			return err
		}
		e, err := x.enter(ctx, fmt.Sprintf("by-heart-%d", round), script)
		if err != nil {
			return err
		}
		score := 0.0
		if e.Score != nil {
			score = *e.Score
		}
		s.Options.Sayf("arena %s, round %d: a script that knows the %d published claims by heart has %.2f (%s)", Arena, round, len(known), score, e.Decision.Outcome)
	}
	return s.Platform.SetArenaState(ctx, operator, Arena, agon.ArenaClosed, "three rounds were shown; docs/examples/rounds goes on")
}

type show struct {
	s *kit.Server
	f kit.ArenaFile
}

// until waits for news of the platform until ok holds.
func (x *show) until(ctx context.Context, ok func() (bool, error)) error {
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, time.Second)
		_ = x.s.Platform.Wait(wait, "") // ends with news or after a second; what is waited for is looked at again
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// enter submits a script by a new miner and returns it decided. What was entered before is
// not entered again.
func (x *show) enter(ctx context.Context, name string, script []byte) (*client.Submission, error) {
	miner, err := kit.LoadParty(x.s.Data.Path("wallets"), "miner-"+name)
	if err != nil {
		return nil, err
	}
	if ok, err := x.s.EnsureRegistered(ctx, x.f.Arena(), miner); err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("%s is not registered in %s", name, Arena))
	}
	c, err := client.New(x.s.Near(), miner.Hotkey)
	if err != nil {
		return nil, err
	}
	id, err := x.entered(ctx, name, miner)
	if err != nil {
		return nil, err
	}
	if id == "" {
		e, err := c.Submit(ctx, Arena, client.SubmitRequest{Name: name, Licence: x.f.Licence, Files: []client.File{{Path: play.AgentFile, Content: script}}})
		if err != nil {
			return nil, fmt.Errorf("enter %s: %w", name, err)
		}
		id = e.ID
	}
	var out *client.Submission
	err = x.until(ctx, func() (bool, error) {
		out, err = x.s.Platform.Submission(ctx, operator, id)
		return err == nil && out.Decision != nil, err
	})
	return out, err
}

// entered is what a miner entered by a name; "": nothing.
func (x *show) entered(ctx context.Context, name string, miner *kit.Party) (string, error) {
	b, err := x.s.Platform.Board(ctx, Arena)
	if err != nil {
		return "", err
	}
	for _, e := range b.Submissions {
		if e.Name == name && e.Miner == miner.Hotkey.SS58() {
			return e.ID, nil
		}
	}
	return "", nil
}

// published waits until so many rounds are over and returns their claims with the
// reference answers, read as anybody can.
func (x *show) published(ctx context.Context, rounds int) (map[string][]any, error) {
	known := map[string][]any{}
	err := x.until(ctx, func() (bool, error) {
		list, err := x.s.Platform.ArenaTasks(ctx, platform.Caller{}, Arena)
		if err != nil {
			return false, err
		}
		for _, t := range list {
			if !t.Retired {
				continue
			}
			claim, ref, err := x.read(ctx, t.Committed.Digest)
			if err != nil {
				return false, err
			}
			known[claim.Payload.ClaimText] = []any{ref.Verdict, ref.Justification}
		}
		return len(known) >= rounds*Tasks, nil
	})
	return known, err
}

// read reads a published task.
func (x *show) read(ctx context.Context, d agon.Digest) (play.Claim, play.Reference, error) {
	trees := &validator.TreeCache{Dir: x.s.Data.Path(Arena + "-published"), Source: x.s.Blobs}
	dir, err := trees.Tree(ctx, d)
	if err != nil {
		return play.Claim{}, play.Reference{}, err
	}
	t, err := task.LoadDir(dir, "published/"+filepath.Base(dir))
	if err != nil {
		return play.Claim{}, play.Reference{}, err
	}
	return play.LoadTask(t)
}

// byHeart is a script that knows claims and nothing else.
func byHeart(known map[string][]any) ([]byte, error) {
	b, err := json.Marshal(known)
	if err != nil {
		return nil, fmt.Errorf("write claims: %w", err)
	}
	text, err := json.Marshal(string(b))
	if err != nil {
		return nil, fmt.Errorf("write claims: %w", err)
	}
	return fmt.Appendf(nil, `"""Knows %d published claims by heart, and nothing else."""

import json

from agon_sdk import entrypoint

KNOWN = json.loads(%s)


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    verdict, why = KNOWN[request["claim_text"]]
    return {"verdict": verdict, "justification": why, "citations": []}
`, len(known), text), nil
}
