package packfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/agon-arena/agon/calc"
)

// Netuid is the subnet whose seeds the rules of agon calc derive.
const Netuid = 11

type hashOut struct {
	Canonical string `json:"canonical"`
	SHA256    string `json:"sha256"`
	Len       int    `json:"len"`
}

type issuesOut struct {
	Passed bool     `json:"passed"`
	Issues []string `json:"issues"`
}

type contextOut struct {
	Seed     uint64            `json:"seed"`
	Context  Context           `json:"context"`
	User     map[string]string `json:"user_context"`
	Preamble string            `json:"preamble_sha256"`
}

type rawIn struct {
	Raw string `json:"raw"`
}

type parsedOut struct {
	Parsed any `json:"parsed"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return append(seasonRules(),
		calc.Func("trajectoryrl.pack_hash", "{input} -> {canonical, sha256, len}: the form and the hash that name a pack", func(in struct {
			Input string `json:"input"`
		},
		) (hashOut, error) {
			p, err := Read([]byte(in.Input))
			if err != nil {
				return hashOut{}, err
			}
			return hashOut{string(p.Canonical), p.Hash, len(p.Canonical)}, nil
		}),
		calc.Func("trajectoryrl.opp_validate", "{pack} -> {passed, issues}: what is wrong with a pack of schema OPP v1", func(in struct {
			Pack json.RawMessage `json:"pack"`
		},
		) (issuesOut, error) {
			v, err := ParseLimit(in.Pack)
			if err != nil {
				return issuesOut{}, err
			}
			issues := New(v).Issues(SchemaOPP)
			return issuesOut{len(issues) == 0, issues}, nil
		}),
		calc.Func("trajectoryrl.epoch_context", "{epoch} -> {seed, context, user_context, preamble_sha256}: who the agent works for in an epoch", func(in struct {
			Epoch int64 `json:"epoch"`
		},
		) (contextOut, error) {
			seed := EpochSeed(Netuid, in.Epoch)
			c := NewContext(seed)
			h := sha256.Sum256([]byte(c.Preamble()))
			return contextOut{seed, c, c.User(), hex.EncodeToString(h[:])}, nil
		}),
		calc.Func("trajectoryrl.challenge_seed", "{id} -> {seed}", func(in struct {
			ID int64 `json:"id"`
		},
		) (map[string]uint64, error) {
			return map[string]uint64{"seed": ChallengeSeed(Netuid, in.ID)}, nil
		}),
		calc.Func("trajectoryrl.eval_window", "{block} -> {window, start, offset, phase, into, remaining}: where a block stands", func(in struct {
			Block int64 `json:"block"`
		},
		) (Window, error) {
			return WindowRule{}.At(in.Block), nil
		}),
		calc.Func("trajectoryrl.commitment_parse", "{raw} -> {parsed: [hash, url] or null}", func(in rawIn) (parsedOut, error) {
			if c, ok := ParseCommitment(in.Raw); ok {
				return parsedOut{[]string{c.Hash, c.URL}}, nil
			}
			return parsedOut{}, nil
		}),
		calc.Func("trajectoryrl.consensus_parse", "{raw} -> {parsed: [protocol, window, address, scoring_version] or null}", func(in rawIn) (parsedOut, error) {
			if p, ok := ParsePointer(in.Raw); ok {
				return parsedOut{[]any{p.Protocol, p.Window, p.Address, p.Scoring}}, nil
			}
			return parsedOut{}, nil
		}),
		calc.Func("trajectoryrl.dual_address", "{raw} -> {parsed: [cid or null, url or null]}", func(in rawIn) (parsedOut, error) {
			cid, url := DualAddress(in.Raw)
			part := func(s string) any {
				if s == "" {
					return nil
				}
				return s
			}
			return parsedOut{[]any{part(cid), part(url)}}, nil
		}),
		calc.Func("trajectoryrl.s1_world", "{epoch_seed, salt} -> {world_seed, rep_seeds, company, user, …}: seeds and names of a world of the first season", s1World),
	)
}

type s1In struct {
	EpochSeed string `json:"epoch_seed"`
	Salt      string `json:"salt"`
}

func s1World(in s1In) (S1World, error) {
	if len(in.EpochSeed)+len(in.Salt) > 4096 {
		return S1World{}, fmt.Errorf("epoch_seed and salt are longer than 4096 bytes")
	}
	return NewS1World(in.EpochSeed, in.Salt), nil
}
