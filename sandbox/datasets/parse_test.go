package datasets

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	for _, c := range []struct{ in, name, where string }{
		{"corpus=https://data.example/c@sha256:" + hex, "corpus", "https://data.example/c"},
		{"dataset:https://data.example/c?x=y@sha256:" + hex, "", "https://data.example/c?x=y"},
		{"a.b-c=sha256:" + hex, "a.b-c", ""},
		{"x=dir:/srv/data@sha256:" + hex, "x", "dir:/srv/data"},
		{"@sha256:" + hex, "", ""},
	} {
		r, err := Parse(c.in)
		if err != nil || r.Name != c.name || r.Where != c.where || r.Digest != "sha256:"+hex {
			t.Errorf("%s: %+v, %v", c.in, r, err)
		}
		if again, err := Parse(Prefix + r.String()); err != nil || again.Where != r.Where || again.Digest != r.Digest {
			t.Errorf("%s: %+v, %v", r, again, err)
		}
	}
	for _, in := range []string{
		"", "corpus", "corpus=https://data.example/c", "corpus=https://data.example/c@sha256:abc", "c=ftp://x@sha256:" + hex,
		"c=/etc@sha256:" + hex, "c=https://a b@sha256:" + hex, "c=https://xsha256:" + hex, "c=" + strings.Repeat("x", MaxRef), "C=https://x@sha256:" + strings.ToUpper(hex),
	} {
		if r, err := Parse(in); !errors.Is(err, ErrDataset) {
			t.Errorf("%q: %+v, %v", in, r, err)
		}
	}
	for _, list := range [][]string{{"sha256:" + hex}, {"a=sha256:" + hex, "a=sha256:" + hex}, slices.Repeat([]string{"a=sha256:" + hex}, 17)} {
		if _, err := ParseAll(list); !errors.Is(err, ErrDataset) {
			t.Errorf("%v: %v", list, err)
		}
	}
}
