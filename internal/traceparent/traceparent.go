// Package traceparent carries the place of a span from one process to the next, in
// the form of W3C Trace Context, for parts that make no spans themselves.
package traceparent

import (
	"context"
	"encoding/hex"
	"strings"
)

// Header is the name of the field in requests.
const Header = "Traceparent"

type key struct{}

// With returns a context in which the current span is at place.
func With(ctx context.Context, place string) context.Context {
	if !Valid(place) {
		return ctx
	}
	return context.WithValue(ctx, key{}, place)
}

// Of returns the place of the current span; "" = none is traced.
func Of(ctx context.Context) string {
	place, _ := ctx.Value(key{}).(string)
	return place
}

// Valid says whether a text is a place: version 00, a trace, a span in it, flags.
func Valid(place string) bool {
	part := strings.Split(place, "-")
	if len(place) != 55 || len(part) != 4 || part[0] != "00" {
		return false
	}
	for i, size := range map[int]int{1: 32, 2: 16, 3: 2} {
		if len(part[i]) != size || strings.ToLower(part[i]) != part[i] {
			return false
		}
		if _, err := hex.DecodeString(part[i]); err != nil {
			return false
		}
	}
	return strings.Trim(part[1], "0") != "" && strings.Trim(part[2], "0") != ""
}
