package research_test

import (
	"testing"

	"github.com/agon-arena/agon/kinds/kit/kittest"
)

func TestRowsOfBitSota(t *testing.T) { kittest.Rows(t, "rows.md", "../..", 96) }
