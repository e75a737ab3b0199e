// Package consensus lets validators agree without a platform: each publishes
// what it measured in a window as a content-addressed payload, points to it on
// the ledger, reads the others', drops what does not fit, and weighs the rest
// by stake. All that read the same payloads come to the same winner.
package consensus

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Versions of the protocol that this package speaks.
const (
	Protocol = 1
	Scoring  = 2
)

// Limits of a payload.
const (
	// MaxPayload is what an arena's server keeps too: 256 miners need a fifth of it.
	MaxPayload = 512 << 10 // bytes
	maxMiners  = 4096
	maxKey     = 256 // bytes of a hotkey or a reason
	// MaxCost bounds a cost in dollars: no episode comes near it.
	MaxCost = 1e6
)

// Payload is what one validator measured in one window.
type Payload struct {
	Protocol     int64
	Window       int64
	Validator    string // hotkey
	Software     string // version of the scenarios and their harness
	Scoring      int64
	Spec         int64 // number of the set of scenarios that was played; 0: it says none
	Timestamp    int64 // Unix seconds
	Costs        map[string]float64
	Qualified    map[string]bool
	Disqualified map[string]string // why
	// Sightings says where on the ledger each miner's pack was first committed.
	Sightings map[string]Sighting
	// Nonce is chance, so that a seal tells nothing of what it promises; agon's own.
	Nonce string
}

// Sighting is the first commitment of a pack by a miner.
type Sighting struct {
	Hash  string // of the pack
	Block uint64
}

// Canonical are the bytes that are published: sorted, compact, ASCII.
func (p Payload) Canonical() []byte {
	costs, qualified, disqualified := map[string]any{}, map[string]any{}, map[string]any{}
	for k, v := range p.Costs {
		costs[k] = v
	}
	for k, v := range p.Qualified {
		qualified[k] = v
	}
	for k, v := range p.Disqualified {
		disqualified[k] = v
	}
	fields := map[string]any{
		"protocol_version": p.Protocol, "window_number": p.Window, "validator_hotkey": p.Validator, "clawbench_version": p.Software,
		"scoring_version": p.Scoring, "timestamp": p.Timestamp, "costs": costs, "qualified": qualified, "disqualified": disqualified,
	}
	if p.Spec != 0 {
		fields["spec_number"] = p.Spec
	}
	if p.Nonce != "" {
		fields["nonce"] = p.Nonce
	}
	if len(p.Sightings) > 0 { // agon's own; other validators ignore it
		seen := map[string]any{}
		for k, s := range p.Sightings {
			seen[k] = map[string]any{"hash": s.Hash, "block": int64(s.Block)}
		}
		fields["sightings"] = seen
	}
	return packfile.Of(fields).Compact()
}

// Hash names a payload by its canonical bytes.
func (p Payload) Hash() agon.Digest { return agon.Sum(p.Canonical()) }

func bad(field, limit, format string, args ...any) error {
	return &agon.Error{Code: "bad_payload", Status: 422, Field: field, Limit: limit, Message: "payload: " + field + ": " + fmt.Sprintf(format, args...)}
}

// Parse reads a payload. Numbers must be finite, costs from 0 to MaxCost;
// unknown fields are ignored.
func Parse(b []byte) (Payload, error) {
	var p Payload
	if len(b) > MaxPayload {
		return p, bad("size", fmt.Sprintf("%d bytes", MaxPayload), "it has %d bytes", len(b))
	}
	v, err := packfile.ParseLimit(b)
	if err != nil || v.Kind != packfile.Object {
		return p, bad("body", "", "it is not a JSON object")
	}
	p.Scoring = 1
	for _, n := range []struct {
		name string
		to   *int64
		must bool
	}{
		{"protocol_version", &p.Protocol, true},
		{"window_number", &p.Window, true},
		{"scoring_version", &p.Scoring, false},
		{"spec_number", &p.Spec, false},
		{"timestamp", &p.Timestamp, true},
	} {
		if err := integer(v, n.name, n.to, n.must); err != nil {
			return p, err
		}
	}
	hotkey := v.Get("validator_hotkey")
	if hotkey.Kind != packfile.String || hotkey.Str == "" || len(hotkey.Str) > maxKey {
		return p, bad("validator_hotkey", "", "want a text of 1 to %d bytes", maxKey)
	}
	p.Validator = hotkey.Str
	software := v.Get("clawbench_version")
	if software.Kind == packfile.Absent {
		software = v.Get("software_version")
	}
	if software.Kind != packfile.String || len(software.Str) > maxKey {
		return p, bad("clawbench_version", "", "want a text of at most %d bytes", maxKey)
	}
	p.Software = software.Str
	if nonce := v.Get("nonce"); nonce.Kind != packfile.Absent {
		if nonce.Kind != packfile.String || len(nonce.Str) > maxKey {
			return p, bad("nonce", "", "want a text of at most %d bytes", maxKey)
		}
		p.Nonce = nonce.Str
	}
	if p.Costs, err = costs(v.Get("costs")); err != nil {
		return p, err
	}
	p.Qualified, p.Disqualified = make(map[string]bool, len(p.Costs)), map[string]string{}
	for name, put := range map[string]func(k string, e packfile.Value) bool{
		"qualified": func(k string, e packfile.Value) bool { p.Qualified[k] = e.Bool; return e.Kind == packfile.Bool },
		"disqualified": func(k string, e packfile.Value) bool {
			p.Disqualified[k] = e.Str
			return e.Kind == packfile.String && len(e.Str) <= maxKey
		},
	} {
		m := v.Get(name)
		if m.Kind == packfile.Absent && name == "disqualified" {
			continue
		}
		if err := miners(name, m, put); err != nil {
			return p, err
		}
	}
	return p, sightings(&p, v.Get("sightings"))
}

func sightings(p *Payload, m packfile.Value) error {
	if m.Kind == packfile.Absent {
		return nil
	}
	p.Sightings = map[string]Sighting{}
	return miners("sightings", m, func(k string, e packfile.Value) bool {
		block, err := strconv.ParseUint(e.Get("block").Int, 10, 63)
		p.Sightings[k] = Sighting{e.Get("hash").Str, block}
		return err == nil && hashForm().MatchString(e.Get("hash").Str)
	})
}

var hashForm = lazyregexp.New(`^[0-9a-f]{64}$`)

func miners(name string, m packfile.Value, put func(string, packfile.Value) bool) error {
	if m.Kind != packfile.Object {
		return bad(name, "", "want an object")
	}
	if len(m.Keys) > maxMiners {
		return bad(name, fmt.Sprintf("%d miners", maxMiners), "%d miners", len(m.Keys))
	}
	for _, k := range m.Keys {
		if k == "" || len(k) > maxKey {
			return bad(name, "", "a hotkey is empty or longer than %d bytes", maxKey)
		}
		if !put(k, m.Fields[k]) {
			return bad(name, "", "the value of %.64q has the wrong type or size", k)
		}
	}
	return nil
}

func costs(m packfile.Value) (map[string]float64, error) {
	out := make(map[string]float64, min(len(m.Keys), maxMiners))
	return out, miners("costs", m, func(k string, e packfile.Value) bool {
		f, ok := number(e)
		out[k] = f
		return ok && f >= 0 && f <= MaxCost
	})
}

// number reads a finite number.
func number(v packfile.Value) (float64, bool) {
	switch v.Kind {
	case packfile.Float:
		return v.Float, !math.IsNaN(v.Float) && !math.IsInf(v.Float, 0)
	case packfile.Int:
		f, err := strconv.ParseFloat(v.Int, 64)
		return f, err == nil
	}
	return 0, false
}

func integer(v packfile.Value, name string, to *int64, must bool) error {
	e := v.Get(name)
	if e.Kind == packfile.Absent && !must {
		return nil
	}
	n, err := strconv.ParseInt(e.Int, 10, 64)
	if e.Kind != packfile.Int || err != nil {
		return bad(name, "64 bits", "want an integer")
	}
	*to = n
	return nil
}

// major is what stands before the first point of a version.
func major(version string) string {
	m, _, _ := strings.Cut(version, ".")
	return m
}
