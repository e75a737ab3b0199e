package pack_test

import (
	"testing"

	"github.com/agon-arena/agon/kinds/kit/kittest"
)

func TestRows(t *testing.T) { kittest.Rows(t, "rows.md", "../..", 74) }
