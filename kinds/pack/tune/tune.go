// Package tune proposes shorter and cheaper forms of a policy pack: rules that
// go, merge or move, tools and skills that nothing used, fewer turns, a cheaper
// model for a step. It is pure; what a change saves and breaks is measured by
// whoever plays the pack.
package tune

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Moves that changes are made of, in the order in which they are proposed: what
// cannot change how the agent works comes first.
const (
	MoveTool    = "tool"    // a tool that was never called is not offered
	MoveSkill   = "skill"   // a skill that was never asked goes
	MoveStop    = "stop"    // the agent may take no more turns than it took
	MoveModel   = "model"   // a skill runs on another model
	MoveStep    = "step"    // looking things up becomes a step on another model
	MoveDrop    = "drop"    // a rule goes
	MoveMerge   = "merge"   // a rule joins the one before, without what was said already
	MoveReorder = "reorder" // a rule stands before the one it followed
)

// Moves are all of them.
var Moves = []string{MoveTool, MoveSkill, MoveStop, MoveModel, MoveStep, MoveDrop, MoveMerge, MoveReorder}

// Used is what plays of a pack were seen to use.
type Used struct {
	Tools  []string // names of tools that were called
	Skills []string // names of skills that were asked
	Turns  int      // the most turns of a play
}

// Change is a pack that differs from another in one thing.
type Change struct {
	Move string
	// What says it for people, Rule is the text of the rule that it is about.
	What, Rule string
	Pack       *packfile.Pack
}

// stepText is the skill that MoveStep adds.
const stepText = "---\ndescription: looks up mail, calendar, tasks, chat and notes, and answers with the facts only\nmodel: %s\n---\nLook up what you are asked for, each source once. Answer with the facts and where they stand, in as few words as they need. Change nothing.\n"

// StepSkill is its file.
const StepSkill = "skills/lookup.md"

// stopForm is a rule that bounds the agent's turns.
var stopForm = lazyregexp.New(`^\s*max_turns\s*[:=]\s*(\d{1,4})\s*$`)

var modelLine = lazyregexp.New(`(?m)^model:[^\n]*$`)

var skillFile = lazyregexp.New(`^skills/([A-Za-z0-9_-]{1,40})(\.md|/SKILL\.md)$`)

// Changes proposes what may make p cheaper. tools are those that an arena
// offers; models are names that a step may run on, in the order of proposal.
func Changes(p *packfile.Pack, used Used, tools, models []string) []Change {
	file := packfile.PolicyFile
	text, ok := p.File(file)
	if !ok {
		file = packfile.SkillFile
		if text, ok = p.File(file); !ok {
			return nil
		}
	}
	var out []Change
	add := func(move, rule string, v packfile.Value, format string, args ...any) {
		n := packfile.New(v)
		if n.Hash != p.Hash {
			out = append(out, Change{Move: move, What: fmt.Sprintf(format, args...), Rule: rule, Pack: n})
		}
	}
	if p.Value.Get("tool_policy").Kind == packfile.Object {
		if left := slices.DeleteFunc(slices.Clone(tools), func(t string) bool { return !slices.Contains(used.Tools, t) }); len(left) > 0 && len(left) < len(tools) {
			deny := p.Value.Get("tool_policy").Get("deny").List
			for _, t := range tools {
				if !slices.Contains(left, t) && !slices.ContainsFunc(deny, func(v packfile.Value) bool { return v.Str == t }) {
					deny = append(slices.Clip(deny), packfile.Of(t))
				}
			}
			policy := p.Value.Get("tool_policy").With("deny", packfile.Value{Kind: packfile.List, List: deny})
			add(MoveTool, "", p.Value.With("tool_policy", policy), "offer %s only, which is what was called", strings.Join(left, ", "))
		}
	}
	for _, name := range p.Files() {
		if m := skillFile().FindStringSubmatch(name); m != nil && !slices.Contains(used.Skills, m[1]) {
			add(MoveSkill, "", withFile(p.Value, name, nil), "remove the skill %s, which was never asked", m[1])
		}
	}
	if used.Turns > 0 && turnsOf(p.Value) > used.Turns {
		add(MoveStop, "", withTurns(p.Value, used.Turns), "stop after %d turns, the most that were taken", used.Turns)
	}
	steps := 0
	for _, name := range p.Files() {
		m := skillFile().FindStringSubmatch(name)
		body, ok := p.File(name)
		if m == nil || !ok {
			continue
		}
		steps++
		for _, model := range models {
			if s := onModel(body, model); s != body {
				add(MoveModel, "", withFile(p.Value, name, &s), "run the skill %s on %s", m[1], model)
			}
		}
	}
	if steps == 0 {
		for _, model := range models {
			s := fmt.Sprintf(stepText, model)
			add(MoveStep, "", withFile(p.Value, StepSkill, &s), "look things up on %s", model)
		}
	}
	rules := Split(text)
	put := func(list []Block) packfile.Value {
		s := Join(list)
		return withFile(p.Value, file, &s)
	}
	for i, r := range rules {
		if !r.Heading && len(rules) > 1 {
			add(MoveDrop, r.Body, put(slices.Delete(slices.Clone(rules), i, i+1)), "drop %q", Short(r.Body))
		}
	}
	for i := 1; i < len(rules); i++ {
		if list, ok := merged(rules, i); ok {
			add(MoveMerge, rules[i].Body, put(list), "merge %q into the rule before", Short(rules[i].Body))
		}
	}
	for i := 1; i < len(rules); i++ {
		if a, b := rules[i-1], rules[i]; !a.Heading && !b.Heading && (a.Marker == "") == (b.Marker == "") {
			list := slices.Clone(rules)
			list[i-1].Body, list[i].Body = b.Body, a.Body
			add(MoveReorder, b.Body, put(list), "move %q before the rule that it follows", Short(b.Body))
		}
	}
	return out
}

// guards are wordings of rules that forbid something, or want somebody asked first.
var guards = lazyregexp.New(`(?i)\b(never|do not|don't|must not|may not|not allowed|forbid|without (being asked|asking|approval|permission)|approv|permission|confidential|private|secret|irreversibl|cannot be undone|only (if|when|after)|ask (first|before)|unless|safe)`)

// Guard reports whether a rule forbids something, by its wording.
func Guard(rule string) bool { return guards().MatchString(rule) }

// Short is the beginning of a rule, for people.
func Short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

// withFile sets a file of a pack; nil removes it.
func withFile(v packfile.Value, name string, text *string) packfile.Value {
	files := v.Get("files")
	if text != nil {
		return v.With("files", files.With(name, packfile.Of(*text)))
	}
	left := packfile.Obj()
	for _, k := range files.Keys {
		if k != name {
			left = left.With(k, files.Get(k))
		}
	}
	return v.With("files", left)
}

// turnsOf is the bound that a pack's stop rules set; a large number without one.
func turnsOf(v packfile.Value) int {
	least := 1 << 20
	for _, r := range v.Get("stop_rules").List {
		if m := stopForm().FindStringSubmatch(r.Str); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				least = min(least, n)
			}
		}
	}
	return least
}

func withTurns(v packfile.Value, n int) packfile.Value {
	list := slices.DeleteFunc(slices.Clone(v.Get("stop_rules").List), func(r packfile.Value) bool { return stopForm().MatchString(r.Str) })
	list = append([]packfile.Value{packfile.Of("max_turns: " + strconv.Itoa(n))}, list...)
	return v.With("stop_rules", packfile.Value{Kind: packfile.List, List: list})
}

// onModel is a skill with another model in its front matter.
func onModel(body, model string) string {
	line := "model: " + model
	rest, ok := strings.CutPrefix(body, "---\n")
	head, after, closed := strings.Cut(rest, "\n---\n")
	switch {
	case !ok || !closed:
		return "---\n" + line + "\n---\n" + body
	case modelLine().MatchString(head):
		head = modelLine().ReplaceAllLiteralString(head, line)
	default:
		head += "\n" + line
	}
	return "---\n" + head + "\n---\n" + after
}
