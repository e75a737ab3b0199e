// Package kinds is the list of the kinds of arena in this binary.
package kinds

import (
	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/coding"
	"github.com/agon-arena/agon/kinds/harbor"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack"
	"github.com/agon-arena/agon/kinds/research"
	"github.com/agon-arena/agon/kinds/shopping"
)

// All makes every kind for one process, in the order of listing: one line each.
func All() kit.List {
	return kit.List{
		coding.Kit(),
		claim.Kit(),
		claim.QueryKit(),
		pack.Kit(),
		shopping.Kit(),
		research.Kit(),
		harbor.Kit(),
	}
}
