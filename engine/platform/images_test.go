package platform

import (
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// A validator learns which images the tasks of its arenas stand on, and gets no
// run, and nothing to judge, on one that it says it does not have.
func TestMissingImages(t *testing.T) {
	python, golang := "registry.test/python@sha256:"+strings.Repeat("a", 64), "registry.test/go@sha256:"+strings.Repeat("b", 64)
	f := strangers(t, 3, 1, func(_ *Config, a *agon.Arena) {
		a.Tasks[0].Image, a.Tasks[1].Image, a.Tasks[1].Hidden = python, golang, true
	})
	ask := client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"}
	list, err := f.NeededImages(bg, Caller{Hotkey: val1}, ask)
	must(t, err)
	if want := []client.NeededImage{{Image: golang, Tasks: 1}, {Image: python, Tasks: 1}}; !slices.Equal(list.Images, want) {
		t.Errorf("needed %+v", list.Images)
	}
	_, err = f.NeededImages(bg, Caller{Hotkey: miner1}, ask)
	wantCode(t, err, 403, "no_permit")
	a, err := f.Arena(bg, "demo")
	must(t, err)
	for _, x := range a.Tasks {
		if x.Hidden && x.Image != "" {
			t.Errorf("the image of a hidden task is shown: %+v", x)
		}
	}
	f.judgeClaim(val2) // it is seen from now on
	f.submit(miner1, "agent")
	claim := func(v string, missing ...string) *client.Lease {
		t.Helper()
		r := ask
		r.MissingImages = missing
		l, err := f.Claim(bg, Caller{Hotkey: v}, r)
		must(t, err)
		return l
	}
	if l := claim(val1, python, golang); l == nil || l.Run.Tasks[0].Image != "" {
		t.Fatalf("%+v", l)
	}
	if l := claim(val1, python, golang); l != nil {
		t.Fatalf("offered a task on %s", l.Run.Tasks[0].Image)
	}
	l := claim(val1, golang)
	if l == nil || l.Run.Tasks[0].Image != python {
		t.Fatalf("%+v", l)
	}
	f.result(val1, l, f.attest(val1, l, scored(l, 1)))
	judge := func(missing ...string) *client.JudgeLease {
		t.Helper()
		r := ask
		r.MissingImages = missing
		j, err := f.ClaimJudging(bg, Caller{Hotkey: val2}, r)
		must(t, err)
		return j
	}
	if j := judge(python); j != nil {
		t.Error("offered a result on an image that is missing")
	}
	if j := judge(golang); j == nil || j.Run.Tasks[0].Image != python {
		t.Errorf("%+v", j)
	}
	if l := claim(val1, python); l == nil || l.Run.Tasks[0].Image != golang {
		t.Errorf("%+v", l)
	}
	for _, bad := range [][]string{{"python:3"}, {"x@sha256:" + strings.Repeat("A", 64)}, {"x@sha256:%' OR 1=1 --"}, slices.Repeat([]string{python}, client.MaxMissingImages+1)} {
		r := ask
		r.MissingImages = bad
		_, err := f.Claim(bg, Caller{Hotkey: val1}, r)
		wantCode(t, err, 422, "bad_claim")
	}
}

// Data sets are needed as images are: named, and waited for.
func TestMissingDatasets(t *testing.T) {
	shown, secret := "https://data.test/corpus@sha256:"+strings.Repeat("a", 64), "@sha256:"+strings.Repeat("b", 64)
	f := strangers(t, 3, 1, func(_ *Config, a *agon.Arena) {
		a.Tasks[0].Datasets, a.Tasks[1].Datasets, a.Tasks[1].Hidden = []string{shown}, []string{shown, secret}, true
	})
	ask := client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"}
	list, err := f.NeededImages(bg, Caller{Hotkey: val1}, ask)
	must(t, err)
	if want := []client.NeededImage{{Image: "dataset:" + secret, Tasks: 1}, {Image: "dataset:" + shown, Tasks: 2}}; !slices.Equal(list.Images, want) {
		t.Errorf("needed %+v", list.Images)
	}
	a, err := f.Arena(bg, "demo")
	must(t, err)
	for _, x := range a.Tasks {
		if x.Hidden && len(x.Datasets) > 0 {
			t.Errorf("the data sets of a hidden task are shown: %+v", x)
		}
	}
	f.submit(miner1, "agent")
	claim := func(missing ...string) *client.Lease {
		t.Helper()
		r := ask
		r.MissingImages = missing
		l, err := f.Claim(bg, Caller{Hotkey: val1}, r)
		must(t, err)
		return l
	}
	if l := claim("dataset:" + shown); l == nil || len(l.Run.Tasks[0].Datasets) > 0 {
		t.Fatalf("%+v", l)
	}
	if l := claim("dataset:" + shown); l != nil {
		t.Fatalf("offered a task with %v", l.Run.Tasks[0].Datasets)
	}
	if l := claim("dataset:" + secret); l == nil || !slices.Equal(l.Run.Tasks[0].Datasets, []string{shown}) {
		t.Fatalf("%+v", l)
	}
	if l := claim(); l == nil || !slices.Equal(l.Run.Tasks[0].Datasets, []string{shown, secret}) {
		t.Fatalf("%+v", l)
	}
}
