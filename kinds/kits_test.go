package kinds

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/libraries"
)

// Agents reach the routes of their own kind's dialects and of no other kind's,
// though one gateway serves them all.
func TestDoorsAreOfTheKind(t *testing.T) {
	open := map[string][]string{ // what is open of routes, besides chat
		"coding":   {"POST /agents/inference", "POST /agents/embedding", "GET /v1/tools"},
		"claim":    {"GET /v1/tools"},
		"pack":     nil,
		"shopping": {"GET /health", "GET /search/find_product", "POST /inference/chat/completions"},
		"research": {"GET /v1/tools"},
	}
	routes := map[string]bool{}
	for _, list := range open {
		for _, r := range list {
			routes[r] = true
		}
	}
	all := All()
	for _, k := range all {
		if _, ok := open[k.Kind]; ok {
			continue
		}
		if _, ok := k.New(kit.Parts{}).(kind.Speaker); ok {
			t.Errorf("%s chooses its dialects: say here what its doors open", k.Kind)
		}
		open[k.Kind] = []string{"GET /v1/tools"}
	}
	g := gatewaytest.Start(t, gateway.Config{Dialects: all.Dialects()}, gatewaytest.Says(gatewaytest.Answer))
	for _, k := range all {
		s := gatewaytest.Open(t, g, gatewaytest.Policy(kind.Dialects(k.New(kit.Parts{}))...), nil)
		const chat = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
		if r := gatewaytest.Post(t, s, "/v1/chat/completions", chat); r.Status != 200 {
			t.Errorf("%s: chat: %d %s", k.Kind, r.Status, r.Body)
		}
		for at := range routes {
			method, path, _ := strings.Cut(at, " ")
			r := gatewaytest.Send(t, s, method, path, chat, "Content-Type", "application/json")
			if is := r.Status != 403; is != slices.Contains(open[k.Kind], at) {
				t.Errorf("%s: %s is open: %t (%d %s)", k.Kind, at, is, r.Status, r.Body)
			}
		}
	}
}

// Every rule says how luck and copies fare under it, and the rates are what the
// simulation finds.
func TestRulesTellTheirLuck(t *testing.T) {
	for name, r := range All().Incentives() {
		c := r.CopyRate
		if r.Fairness(nil, incentive.PaidByValidators) == "" {
			t.Errorf("%s says nothing of copies", name)
		}
		if (c == nil) != (r.Pairing != nil) {
			t.Errorf("%s: either a bound or a rate", name)
		}
		if c == nil {
			continue
		}
		s := incentive.Simulation{Name: name, Rule: r, Copies: 1000, Discordance: c.Discordance, Noise: c.Noise, Tasks: c.Tasks, Seed: 2}
		out, err := s.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(out.Copy1-c.One) > 0.05 || math.Abs(out.Copy5-c.Five) > 0.05 {
			t.Errorf("%s says %v and %v, simulated %v and %v", name, c.One, c.Five, out.Copy1, out.Copy5)
		}
	}
}

// Every list that ships can be used, and has what its system promises.
func TestLibraries(t *testing.T) {
	all := All().Libraries()
	for name, wants := range map[string]string{
		"ridges":      "numpy pandas openai httpx pydantic tree-sitter tree-sitter-language-pack requests pytest",
		"ridges-seed": "numpy pandas scikit-learn scipy pydantic requests",
		"caster":      "pydantic httpx jsonschema",
		"oro":         "requests ujson",
	} {
		list, ok := all[name]
		if !ok {
			t.Errorf("%s does not ship", name)
			continue
		}
		packages, err := libraries.Parse(list)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		have := strings.ToLower(strings.Join(packages, " "))
		for p := range strings.FieldsSeq(wants) {
			if !strings.Contains(" "+have, " "+p+"==") {
				t.Errorf("%s has no %s: %s", name, p, have)
			}
		}
	}
}
