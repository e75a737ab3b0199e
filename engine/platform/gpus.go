package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// gpuText is what is stored of the GPUs that a claim names; a claim that names none says so.
func gpuText(list []agon.GPU) string {
	if len(list) == 0 {
		return "[]"
	}
	b, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return string(b)
}

// checkGPUs compares the GPUs of a result with what the run's tasks need and with what
// the validator said that its machine has. It does not show that they are there: a
// validator that lies alike in claims and results is seen only by what its cards
// measure (docs/gpu.md).
func checkGPUs(tx *store.Tx, a agon.Arena, run store.Run, validator string, r client.Result) error {
	bad := func(format string, args ...any) error {
		e := refuse(422, "bad_result", format, args...)
		e.Field = "driver.gpus"
		return e
	}
	if r.Fault.Ours() {
		return nil // it proves nothing
	}
	list := r.Driver.GPUs
	if err := agon.CheckGPUs(list); err != nil {
		return bad("gpus%s", err)
	}
	need, err := agon.NeedOf(run.Tasks)
	if err != nil || need == nil {
		if len(list) > 0 {
			return bad("the result names %d GPUs, and its tasks ask for none", len(list))
		}
		return nil
	}
	scored := slices.ContainsFunc(r.Scores, func(s agon.Score) bool { return s.Value > 0 || s.Solved })
	if len(list) == 0 && !scored {
		return nil // no box was started
	}
	if got := need.Choose(list); len(got) != need.Count || len(list) != need.Count {
		return bad("the run needs %s, the result names %d GPUs that fit, of %d", need, len(got), len(list))
	}
	seen, err := tx.SeenGPUsOf(a.ID, validator)
	if err != nil {
		return err
	}
	for _, g := range list {
		// Its driver may have been updated since; the card is the same one.
		if !slices.ContainsFunc(seen, func(x agon.GPU) bool { return x.ID == g.ID && x.Model == g.Model && x.MemoryBytes == g.MemoryBytes }) {
			return bad("GPU %s (%s) was not named in this validator's claims", g.ID, g.Model)
		}
	}
	return nil
}

// UnservedGPUs are the tasks of an arena whose GPUs no validator has that was lately
// seen there: nobody plays them. For the operator, as tasks may be hidden.
func (p *Platform) UnservedGPUs(ctx context.Context, c Caller, arena string) (out []string, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out = nil
		a, err := tx.Arena(arena)
		if err != nil {
			return found(err, "arena", arena)
		}
		seen, err := tx.SeenGPUs(arena, p.now().Add(-p.cfg.SeenFor))
		if err != nil {
			return err
		}
		missing := map[string]int{}
		for _, t := range a.Tasks {
			if t.GPU == nil {
				continue
			}
			served := false
			for _, list := range seen {
				served = served || t.GPU.Choose(list) != nil
			}
			if !served {
				missing[t.GPU.String()]++
			}
		}
		for need, n := range missing {
			out = append(out, unserved(n, need))
		}
		slices.Sort(out)
		return nil
	})
	return out, err
}

// unserved says in words that nobody plays n tasks.
func unserved(n int, need string) string {
	if n == 1 {
		return fmt.Sprintf("1 task needs %s, and no validator that serves the arena has that", need)
	}
	return fmt.Sprintf("%d tasks need %s, and no validator that serves the arena has that", n, need)
}

// withGPUs adds what validators last said of their machines to their standings. Two that
// name one card are one machine, or one of them does not say the truth.
func withGPUs(list []client.ValidatorStanding, seen map[string][]agon.GPU) {
	by := map[string][]string{}
	for v, gpus := range seen {
		for _, g := range gpus {
			by[g.ID] = append(by[g.ID], v)
		}
	}
	for i := range list {
		v := &list[i]
		v.GPUs = seen[v.Hotkey]
		for _, g := range v.GPUs {
			for _, other := range by[g.ID] {
				if other != v.Hotkey && !slices.Contains(v.SharesGPU, other) {
					v.SharesGPU = append(v.SharesGPU, other)
				}
			}
		}
		slices.Sort(v.SharesGPU)
	}
}
