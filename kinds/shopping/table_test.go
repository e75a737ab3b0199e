package shopping_test

import (
	"testing"

	"github.com/agon-arena/agon/kinds/kit/kittest"
)

func TestRowsOfORO(t *testing.T) { kittest.Rows(t, "rows.md", "../..", 41) }
