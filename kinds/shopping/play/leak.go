package play

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// LeakKeys implements kind.LeakKeyer: problems with one reward, in whatever
// words they ask for it, are one; and so are those that want a product of
// another. A product's key is its bare id, as what agents recommended.
func (k *Kind) LeakKeys(_ agon.TaskRef, read func(string) ([]byte, error)) ([]string, error) {
	b, err := read(RewardFile)
	if err != nil {
		return nil, err
	}
	var p shop.Problem
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("read reward: %w", err)
	}
	var keys, specs []string
	for _, it := range p.Reward.Items {
		if it.ProductID != "" {
			keys = append(keys, it.ProductID)
		}
		it.Title = nil // a paraphrase of the product, not of what counts
		s, err := json.Marshal(it)
		if err != nil {
			return nil, fmt.Errorf("read reward: %w", err)
		}
		specs = append(specs, string(s))
	}
	slices.Sort(specs)
	s, err := json.Marshal(map[string]any{"items": specs, "voucher": p.Voucher})
	if err != nil {
		return nil, fmt.Errorf("read reward: %w", err)
	}
	return append(keys, "reward "+string(agon.Sum(s))), nil
}
