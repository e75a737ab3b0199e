package run

import (
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/kind/coding"
	"github.com/agon-arena/agon/samples"
)

func codingKit() kit {
	return kit{
		name:  "coding",
		build: func(p parts) kind.Kind { return coding.New(coding.Config{Rootfs: p.rootfs}) },
		demo: func() ArenaFile {
			f := ArenaFile{
				ID: "demo-coding", Kind: "coding", Title: "Software engineering: mend the bug", Netuid: 1, Licence: "MIT",
				Sets: []string{"small", releasedSet}, Samples: true, SubmissionsPerColdkey: 50,
			}
			f.defaults()
			return f
		},
		sets:       []string{"small", releasedSet},
		samples:    []sample{{name: "nop"}, {name: "repair"}, {name: "llm", model: true}},
		script:     samples.Script,
		incentives: map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()},
	}
}
