package run

import (
	"testing"

	"github.com/agon-arena/agon/tools/index"
)

func TestToolConfig(t *testing.T) {
	docs := index.New(nil, "documents", nil)
	for _, c := range []struct {
		env    map[string]string
		search string
		ok     bool
	}{
		{nil, "documents", true},
		{map[string]string{"AGON_DESEARCH_URL": "https://search.example", "AGON_DESEARCH_KEY": "k"}, "desearch", true},
		{map[string]string{"AGON_DESEARCH_URL": "https://search.example"}, "", false},
		{map[string]string{"AGON_DESEARCH_URL": "http://search.example", "AGON_DESEARCH_KEY": "k"}, "", false},
	} {
		got, err := toolConfig(Options{Getenv: func(k string) string { return c.env[k] }}, docs, nil, "")
		if (err == nil) != c.ok || (c.ok && got.Search.Name() != c.search) {
			t.Errorf("%v: %v %+v", c.env, err, got)
		}
	}
}
