package play

import (
	"slices"
	"testing"
)

func TestRecommended(t *testing.T) {
	for args, want := range map[string][]string{
		`{"product_ids":"1,2"}`:               {"1", "2"},
		`{"product_ids":" 1; 2 "}`:            {"1", "2"},
		`{"product_ids":["1","2"]}`:           {"1", "2"},
		`{"product_ids":[1,2]}`:               {"1", "2"},
		`{"product_ids":7}`:                   {"7"},
		`{"product_id":"7"}`:                  {"7"},
		`{"product_ids":"","product_id":"7"}`: nil,
		`{"product_ids":[]}`:                  nil,
		`{}`:                                  nil,
		`[1]`:                                 nil,
		`{`:                                   nil,
	} {
		got, err := recommended(args)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %v, %v, want %v", args, got, err, want)
		}
	}
}

func FuzzRecommended(f *testing.F) {
	f.Add(`{"product_ids":["1",2]}`)
	f.Add(`{"product_id":{}}`)
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := recommended(s); (err == nil) != (len(got) > 0) || slices.Contains(got, "") {
			t.Fatalf("%q: %q, %v", s, got, err)
		}
	})
}
