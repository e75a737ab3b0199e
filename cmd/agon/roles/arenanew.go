package roles

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// arenaText is an arena file to start from: everything that is commented out
// shows its default.
var arenaText = template.Must(template.New("arena").Parse(`# An arena of the kind {{.Kind}}. Check it: agon arena check FILE; open it: agon up --arena FILE
id = "my-{{.Kind}}"            # 2 to 40 of a-z, 0-9 and -
kind = "{{.Kind}}"
title = "{{.Title}}"
netuid = {{.Netuid}}                      # subnet on the ledger
# ledger = "local"                 # or finney, test, or addresses of nodes (docs/chain.md)
# mechanism = 0                    # mechanism of the subnet on which validators' weights go
# weights_version = 1              # version key of validators' weights, where the subnet's owner demands one
licence = "{{.Licence}}"                # SPDX id that every submission agrees to
incentive = "{{.Incentive}}"
sets = [{{range $i, $s := .Sets}}{{if $i}}, {{end}}"{{$s}}"{{end}}]          # shipped sets, or directories of tasks named with a slash: "./tasks"
# hidden = ["./hidden-tasks"]  # sets whose tasks only validators may read
# max_leases = {{.MaxLeases}}              # runs that one validator may hold
# attempts = {{.Attempts}}                 # retries of a run after a fault of ours
submissions_per_coldkey = 5    # a day; attempts must cost something (0: no cap)
# evidence = "foreign"           # also take results of foreign validators, which nobody can judge again: they move no seat (default: required)
# rejudge = 0.1                  # share of results that another validator judges again; at most rejudge_per_day (1000)
# unjudged_seats = true          # seats may move before others have judged the challenger's results again
# rehearsal = true               # entries that the stand-in script answered take seats, which earn nothing
# embargo_hours = 72             # work stays private so long after it was entered (default: until it is decided)
# near_copies = "exclude"        # keep out what is nearly another's public work; "share": half of what it earns is the other's (default "charge": attempts of all that are alike add up)
# entry_fee_usd = 0.5            # an entry costs so much of its coldkey's purse (agon operator fund)
# pairs_paid_by = "challenger"   # its purse pays for the pairs of both sides, at most max_usd, by the statements of policy.gateway (default "gateway": who runs it)
samples = false                # true enters agon's own sample agents
{{with .JudgeGate}}
# [judge]                        # {{if .Kappa}}what it must have shown before a seat is decided (agon judge calibrate)
# kappa = {{.Kappa}}                  # the lower end of its kappa's interval
# false_accepts = {{.FalseAccepts}}          # the most in any class of cases
# demo = true                  # no gate: any judge will do{{else}}no seat is decided while something stands in for a part of the judging (agon arena check says what)
# demo = true                  # what stands in will do{{end}}
{{end}}{{if .IncentiveNumbers}}
[incentive_numbers]            # docs/incentive.md; agon arena check says what gain they tell
{{range $k, $v := .IncentiveNumbers}}{{$k}} = {{$v}}
{{end}}{{end}}
[policy]
models = ["*"]                 # allow-list; "*" is every model with a price
{{if .Policy.Tools}}tools = [{{range $i, $t := .Policy.Tools}}{{if $i}}, {{end}}"{{$t}}"{{end}}] # that agents may call
{{end}}# driver = "runsc"             # demand a box driver: scores compare within one
# usage = "report"             # a provider's count of tokens that the text contradicts fourfold; "refuse" books our own count
# aliases = [{ name = "deepseek-ai/DeepSeek-V3", model = "gpt-5-mini", in = 250000, out = 2000000 }] # other names, each with its price in micro-dollars a million tokens; no model: the first there is
# gateway = "validator"        # or the URL of the platform's own gateway, with gateway_key

[policy.agent]                 # the box of the agent
wall_ms = {{.Policy.Agent.WallMS}}
# cpu_ms = 60000               # CPU time, all processes together
memory_bytes = {{.Policy.Agent.MemoryBytes}}
pids = {{.Policy.Agent.Pids}}
disk_bytes = {{.Policy.Agent.DiskBytes}}

[policy.budget]                # of one run at the gateway, reserved before each call
micros = {{.Policy.Budget.Micros}}               # 1000000 = 1 US dollar
calls = {{.Policy.Budget.Calls}}
`))

// arenaTemplate is a commented arena file of a kind.
func arenaTemplate(kits kit.List, kind string) ([]byte, error) {
	k, ok := kits.Of(kind)
	if !ok {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "kind", Message: "there is no kind " + kind, Mend: "the kinds are " + strings.Join(kits.Names(), ", ")}
	}
	if k.Demo == nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "kind", Message: "the kind " + kind + " ships no arena to start from", Mend: "give its Kit a Demo, or write the arena file by hand"}
	}
	f := k.Demo()
	if f.Incentive != incentive.PairedRule && k.Coordinator == nil {
		// A demo may show the rule of a foreign subnet, which luck can win; a new arena starts from the default.
		f.Incentive, f.IncentiveNumbers = incentive.PairedRule, map[string]float64{incentive.NumValidators: 1, incentive.NumAgree: 1}
	}
	if f.Incentive == incentive.PairedRule {
		// A demo's alpha is for a demo. One machine has one validator; where strangers
		// validate, the rule's three are right.
		own := maps.Clone(f.IncentiveNumbers)
		for _, name := range []string{incentive.NumAlpha, incentive.NumEntries, incentive.NumMinGain, incentive.NumBatch} {
			delete(own, name)
		}
		own[incentive.NumMaxPairs] = 200
		f.IncentiveNumbers = own
	}
	var b bytes.Buffer
	f.Samples, f.Judge = false, nil // a demo enters them, and seats by any judge
	f = f.Complete(kits)
	if err := arenaText.Execute(&b, struct {
		kit.ArenaFile
		JudgeGate *agon.Gate
	}{f, f.Gate()}); err != nil {
		return nil, fmt.Errorf("write arena file: %w", err)
	}
	return b.Bytes(), nil
}

// checkArena checks an arena file, its sets included, without opening it.
func checkArena(o kit.Options, path string) (*cli.ArenaChecked, error) {
	f, err := kit.LoadArenaFile(path, o.Kits)
	if err != nil {
		return nil, err
	}
	out := &cli.ArenaChecked{File: path, ID: f.ID, Kind: f.Kind, Rule: f.Incentive}
	var bad []string
	once := f.Distinct(o)
	missing := 0
	for i, names := range [][]string{f.Sets, f.Hidden} {
		for _, name := range names {
			list, away, err := kit.LoadSet(o, f.Kind, name)
			if err != nil {
				bad = append(bad, "sets: "+err.Error())
			}
			out.Tasks += len(list)
			missing += away
			for _, t := range list {
				if err := once.Add("sets", t, i == 1); err != nil {
					bad = append(bad, "sets: "+err.Error())
				}
				if n := t.Config.Environment.GPU(); n != nil {
					if out.GPUs == nil {
						out.GPUs = map[string]int{}
					}
					out.GPUs[n.String()]++
				}
			}
		}
	}
	if f.Supply != nil {
		bad = append(bad, checkSupply(o, f, once)...)
		out.Tasks += f.Supply.Tasks
	}
	if len(bad) == 0 && out.Tasks == 0 && missing == 0 {
		bad = append(bad, "sets: the arena has no task")
	}
	if len(bad) > 0 {
		return nil, kit.ArenaMistakes("arena file", bad)
	}
	if k, ok := o.Kits.Of(f.Kind); ok {
		if g := f.Gate(); g != nil {
			list, err := kit.Gauges(o.Data).Records()
			if err != nil {
				return nil, err
			}
			out.Judge = platform.StandingOf(*g, k.New(o.Parts("")), list)
		}
	}
	if k, ok := o.Kits.Of(f.Kind); ok && k.Coordinator != nil {
		return out, nil // the kind decides takeovers by tests of its own
	}
	told, err := incentive.Tell(context.Background(), f.Incentive, o.Kits.Incentives()[f.Incentive], f.IncentiveNumbers, out.Tasks, playUSD(f))
	if err != nil {
		return nil, kit.ArenaMistakes("arena file", []string{"incentive_numbers: " + err.Error()})
	}
	out.Told = &told
	return out, nil
}

// playUSD is the most that one play may cost.
func playUSD(f kit.ArenaFile) float64 { return float64(f.Policy.Budget.Micros) / 1e6 }

// ruleOfArena reads what decides in the arena of a file.
func ruleOfArena(o kit.Options, path string) (*cli.ArenaRule, error) {
	f, err := kit.LoadArenaFile(path, o.Kits)
	if err != nil {
		return nil, err
	}
	out := &cli.ArenaRule{Name: f.Incentive, Numbers: f.IncentiveNumbers, PlayUSD: playUSD(f)}
	for _, name := range append(slices.Clone(f.Sets), f.Hidden...) {
		list, _, err := kit.LoadSet(o, f.Kind, name)
		if err != nil {
			return nil, kit.ArenaMistakes("arena file", []string{"sets: " + err.Error()})
		}
		out.Tasks += len(list)
	}
	return out, nil
}

// checkSupply says what is wrong with the tasks of a supply that is a folder of them.
func checkSupply(o kit.Options, f kit.ArenaFile, once *kit.Distinct) (bad []string) {
	x := f.Supply
	if x.From != agon.SupplyDirectory && x.From != agon.SupplyBank {
		return nil
	}
	if st, err := os.Stat(x.Path); err == nil && !st.IsDir() { // a bank of the kind's own form
		return nil
	}
	list, _, err := kit.LoadSet(o, f.Kind, x.Path)
	if err != nil {
		return []string{"supply.path: " + err.Error()}
	}
	for _, t := range list {
		if err := once.Add("supply", t, true); err != nil {
			bad = append(bad, "supply.path: "+err.Error())
		}
	}
	if need := 2 * x.Tasks; len(list) < need {
		bad = append(bad, fmt.Sprintf("supply.path: it has %d tasks; the first set and the next are drawn before the arena opens, which takes %d", len(list), need))
	}
	return bad
}
