package shopping

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/shopping/play"
)

// Tools of an episode besides the catalogue's.
const (
	toolRecommend = "recommend_product"
	toolTerminate = "terminate"
)

// shopTools tells policies what they may call; the catalogue's arguments are those of
// package search.
func shopTools() []environment.Tool {
	return []environment.Tool{
		{Name: "find_product", Description: "Search the catalogue: at most ten products a page.", Schema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string","description":"words to search for"},"page":{"type":"integer","minimum":1},"shop_id":{"type":"string","description":"only of this shop"},"price":{"type":"string","description":"lowest-highest, either may be empty"},"sort":{"type":"string","enum":["default","order","priceasc","pricedesc"]},"service":{"type":"string","description":"services that the offer must have, with commas between"}},"required":["q"]}`)},
		{Name: "view_product_information", Description: "Details of products: price, shop, services, options, attributes.", Schema: json.RawMessage(`{"type":"object","properties":{"product_ids":{"type":"string","description":"ids with commas between"}},"required":["product_ids"]}`)},
		{Name: toolRecommend, Description: "Give the answer: the products, in the order in which they were asked for. The last answer counts.", Schema: json.RawMessage(`{"type":"object","properties":{"product_ids":{"type":"string","description":"ids with commas between"}},"required":["product_ids"]}`)},
		{Name: toolTerminate, Description: "End the episode; the answer is scored.", Schema: json.RawMessage(`{"type":"object","properties":{"status":{"type":"string","enum":["success","failure"]}}}`)},
	}
}

// shopEnv plays shopping problems call by call, scored as the arena's grader scores
// their answers.
type shopEnv struct {
	floor *shopFloor
	tools map[string]tool.Tool
	tasks []environment.Task
	whole map[string][]byte // the problem with what was asked for, by key
}

var _ environment.Environment = (*shopEnv)(nil)

// newEnvironment reads the problems once; an error names the task.
func newEnvironment(_ context.Context, floor *shopFloor, list []*task.Task) (environment.Environment, error) {
	e := &shopEnv{floor: floor, tools: map[string]tool.Tool{}, whole: map[string][]byte{}}
	for _, t := range play.Tools(floor) {
		e.tools[t.Name()] = t
	}
	for _, t := range list {
		if err := play.CheckTask(t); err != nil {
			return nil, err
		}
		pub, err := t.ReadFile(play.ProblemFile, 4<<20)
		if err != nil {
			return nil, err
		}
		var p play.Public
		if err := json.Unmarshal(pub, &p); err != nil {
			return nil, fmt.Errorf("task %s: %s: %w", t.Key, play.ProblemFile, err)
		}
		if e.whole[t.Key], err = t.ReadFile(play.RewardFile, 4<<20); err != nil {
			return nil, err
		}
		meta, err := json.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Key, err)
		}
		e.tasks = append(e.tasks, environment.Task{Key: t.Key, Prompt: p.Query, Meta: meta})
	}
	return e, nil
}

func (e *shopEnv) Name() string              { return play.Name }
func (e *shopEnv) Tasks() []environment.Task { return e.tasks }
func (e *shopEnv) Tools() []environment.Tool { return shopTools() }

// Open begins an episode. Nothing in a catalogue is drawn: the seed changes nothing.
func (e *shopEnv) Open(ctx context.Context, key string, _ int64) (environment.Episode, error) {
	whole, ok := e.whole[key]
	if !ok {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: fmt.Sprintf("there is no task %.80q", key)}
	}
	if _, _, err := e.floor.Open(ctx); err != nil {
		return nil, err
	}
	return &shopEpisode{env: e, whole: whole}, nil
}

// shopEpisode is one try at a problem.
type shopEpisode struct {
	env    *shopEnv
	whole  []byte
	answer json.RawMessage // arguments of the last recommendation
}

func (s *shopEpisode) Close() error { return nil }

// Call implements environment.Episode.
func (s *shopEpisode) Call(ctx context.Context, name string, args json.RawMessage) (environment.Reply, error) {
	switch name {
	case toolRecommend:
		if _, err := play.FinalCall().IDs(string(args)); err != nil {
			return environment.Reply{Refused: true, Text: "product_ids: " + err.Error()}, nil
		}
		s.answer = append(json.RawMessage(nil), args...)
		return environment.Reply{Text: "Recommended; terminate ends the episode."}, nil
	case toolTerminate:
		return s.end(ctx, args)
	}
	t, ok := s.env.tools[name]
	if !ok {
		return environment.Reply{Refused: true, Text: fmt.Sprintf("there is no tool %.80q", name)}, nil
	}
	checked, err := t.Check(args)
	if err != nil {
		return environment.Reply{Refused: true, Text: err.Error()}, nil
	}
	r, err := t.Do(ctx, checked)
	if err != nil {
		return environment.Reply{}, err
	}
	return environment.Reply{Text: string(r.Body), Refused: r.Status >= 400}, nil
}

// end scores the answer by the arena's grader; how it ends is part of it where
// nothing answers the problem.
func (s *shopEpisode) end(ctx context.Context, args json.RawMessage) (environment.Reply, error) {
	if !json.Valid(args) {
		args = json.RawMessage("{}")
	}
	type call struct {
		Name   string          `json:"name"`
		Params json.RawMessage `json:"parameters"`
	}
	step := func(c call) any {
		return map[string]any{"completion": map[string]any{"message": map[string]any{"tool_call": []call{c}}}}
	}
	steps := []any{}
	if s.answer != nil {
		steps = append(steps, step(call{toolRecommend, s.answer}))
	}
	dialogue, err := json.Marshal(append(steps, step(call{toolTerminate, args})))
	if err != nil {
		return environment.Reply{}, fmt.Errorf("end episode: %w", err)
	}
	g, err := s.env.floor.Grade(ctx, s.whole, dialogue)
	if err != nil {
		return environment.Reply{}, err
	}
	r := environment.Reply{Done: true, Text: "The episode is over.", Fields: g.Fields}
	// How a conversation is laid out is not seen here, so it is not scored.
	delete(r.Fields, "format")
	delete(r.Fields, "length")
	if g.Success {
		r.Reward = 1
	}
	return r, nil
}

// environmentOf is the ability of the kit.
func environmentOf(floor *shopFloor) func(context.Context, kit.Options, []*task.Task) (environment.Environment, error) {
	return func(ctx context.Context, o kit.Options, list []*task.Task) (environment.Environment, error) {
		return newEnvironment(ctx, floor.With(o), list)
	}
}
