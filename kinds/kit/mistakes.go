package kit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agon-arena/agon"
)

// ArenaMistakes is the error that lists what is wrong with an arena file: "field: message".
func ArenaMistakes(what string, list []string) error {
	e := &agon.Error{Code: "bad_arena_file", Status: 422, Mend: "correct each and start again"}
	if len(list) == 1 {
		e.Field, _, _ = strings.Cut(afterPlace(list[0]), ": ")
		e.Message = what + ": " + list[0]
	} else {
		e.Message = fmt.Sprintf("%s: %d mistakes", what, len(list))
		e.Err = errors.New(strings.Join(list, "; ")) // for logs; people get the findings
	}
	for _, l := range list {
		field, _, _ := strings.Cut(afterPlace(l), ": ")
		e.Findings = append(e.Findings, agon.Finding{Code: "bad_arena_file", Field: field, Message: l})
	}
	return e
}

// afterPlace is a mistake without its line and column.
func afterPlace(l string) string {
	if _, rest, ok := strings.Cut(l, "  "); ok && l[0] >= '0' && l[0] <= '9' {
		return rest
	}
	return l
}
