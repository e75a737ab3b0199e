package merkle

import (
	"fmt"
	"strings"
	"testing"
)

// epoch is evidence of two claims that holds; before is the epoch before it, nil
// for the first.
func epoch(t *testing.T, number uint64, before *Evidence, amounts, earned [2]uint64) *Evidence {
	t.Helper()
	e := &Evidence{Version: EvidenceVersion, Epoch: number, Profile: ProfileInk, Budget: earned[0] + earned[1], Floor: 10}
	for i := range amounts {
		var old uint64
		if before != nil {
			old = before.Claims[i].Amount
			e.Previous = before.Root
		}
		e.Claims = append(e.Claims, Claim{
			Index: uint32(i), Hotkey: fmt.Sprint("key", i), Public: rep(fmt.Sprintf("a%d", i), 32), RecPublic: rep("b0", 32),
			Amount: amounts[i], Earned: earned[i], Transfer: amounts[i] - old, Below: amounts[i]-old > 0 && amounts[i]-old < 10,
		})
		e.Total += amounts[i]
	}
	seal(t, e)
	return e
}

// seal computes count, roots and hash of what the claims say now.
func seal(t *testing.T, e *Evidence) {
	t.Helper()
	e.LeafCount = len(e.Claims)
	ink, oz, err := e.Trees()
	if err != nil {
		t.Fatal(err)
	}
	e.Root, e.OZRoot = ink.Root(), oz.Root()
	if e.ListHash, err = HashClaims(e.Claims); err != nil {
		t.Fatal(err)
	}
}

// Whoever publishes an epoch is doubted in every number: each edit is found,
// also where all roots are computed anew after it.
func TestEvidenceVerify(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(e *Evidence)
		seal bool
		want string // "" for what holds
	}{
		"it holds":                       {func(*Evidence) {}, true, ""},
		"a transfer of the floor":        {func(e *Evidence) { e.Claims[1].Transfer = 10 }, true, ""},
		"less than the budget":           {func(e *Evidence) { e.Budget++ }, true, ""},
		"another form":                   {func(e *Evidence) { e.Version = "2" }, true, "not understood"},
		"another profile":                {func(e *Evidence) { e.Profile = ProfileOZ }, true, "not understood"},
		"one leaf less is said":          {func(e *Evidence) { e.LeafCount-- }, false, "leaf_count"},
		"one leaf more is said":          {func(e *Evidence) { e.LeafCount++ }, false, "leaf_count"},
		"another root":                   {func(e *Evidence) { e.Root[0] ^= 1 }, false, "the root of the claims"},
		"another standard root":          {func(e *Evidence) { e.OZRoot[0] ^= 1 }, false, "the standard root"},
		"another hash of the list":       {func(e *Evidence) { e.ListHash[0] ^= 1 }, false, "the hash of the claims"},
		"two claims of one key":          {func(e *Evidence) { e.Claims[1].Public = e.Claims[0].Public }, true, "has two claims"},
		"a small transfer is not so":     {func(e *Evidence) { e.Claims[1].Below = false }, true, "below_transfer_floor"},
		"a large transfer is small":      {func(e *Evidence) { e.Claims[0].Below = true }, true, "below_transfer_floor"},
		"no transfer is not a small one": {func(e *Evidence) { e.Claims[1].Transfer, e.Claims[1].Below = 0, true }, true, "below_transfer_floor"},
		"more is sent than owed":         {func(e *Evidence) { e.Claims[0].Transfer = 1000 }, true, "transfers or earns more"},
		"more is earned than owed":       {func(e *Evidence) { e.Claims[0].Earned, e.Budget = 1000, 2000 }, true, "transfers or earns more"},
		"the sum is too high":            {func(e *Evidence) { e.Total++ }, true, "the claims sum to"},
		"the sum is too low":             {func(e *Evidence) { e.Total-- }, true, "the claims sum to"},
		"beyond the budget":              {func(e *Evidence) { e.Budget-- }, true, "the budget is"},
		"another epoch before":           {func(e *Evidence) { e.Previous[0] ^= 1 }, true, "the epoch before"},
		"an epoch is left out":           {func(e *Evidence) { e.Epoch++ }, true, "the epoch before"},
		"an epoch comes again":           {func(e *Evidence) { e.Epoch-- }, true, "the epoch before"},
		"more than before and earned":    {func(e *Evidence) { e.Claims[0].Amount++; e.Total++ }, true, "earned are not"},
		"less than before and earned":    {func(e *Evidence) { e.Claims[0].Amount--; e.Total-- }, true, "earned are not"},
		"a claim is gone": {func(e *Evidence) {
			e.Total -= e.Claims[1].Amount
			e.Claims = e.Claims[:1]
		}, true, "is gone"},
	} {
		before := epoch(t, 6, nil, [2]uint64{100, 50}, [2]uint64{100, 50})
		e := epoch(t, 7, before, [2]uint64{130, 55}, [2]uint64{30, 5})
		c.edit(e)
		if name == "a transfer of the floor" {
			e.Claims[1].Below = false
		}
		if c.seal {
			seal(t, e)
		}
		err := e.Verify(before)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A place outside a tree has no proof; a tree may not be larger than its limit.
func TestTreeEdges(t *testing.T) {
	rule, err := RuleOf(ProfileInk)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Build(rule, make([]Hash, 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 3} {
		if _, err := tree.Proof(i); err == nil {
			t.Errorf("place %d of 3 has a proof", i)
		}
	}
	if _, err := Build(rule, make([]Hash, MaxLeaves+1)); err == nil {
		t.Errorf("a tree of %d leaves is built", MaxLeaves+1)
	}
}
