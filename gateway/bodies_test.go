package gateway

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/gateway/provider"
)

// What is too long for an event is in the store, whole; the rest is in the event only.
func TestBodies(t *testing.T) {
	store, err := blobfs.Open(t.TempDir(), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Replace(answerJSON, "hi", strings.Repeat("<word> ", 300_000), 1)
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(long))}, Bodies: store})
	var l log
	s := open(t, g, policy("m"), &l)
	if r := post(t, s, chatPath, hello); r.status != 200 || r.body != long {
		t.Fatalf("reply %d", r.status)
	}
	_ = s.Close()
	e := l.of(agon.EventModel)[0].(ModelCall)
	if e.Request.Cut || e.Request.Blob != "" || !e.Response.Cut || e.Response.Blob == "" {
		t.Fatalf("request %+v, response cut %v, blob %s", e.Request, e.Response.Cut, e.Response.Blob)
	}
	for _, c := range []struct {
		b    Body
		hash agon.Digest
		want string
	}{{e.Response, e.Receipt.ResponseHash, long}, {e.Request, e.Receipt.RequestHash, e.Request.Text}} {
		if got, err := ReadBody(t.Context(), store, c.b, c.hash); err != nil || string(got) != c.want {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := ReadBody(t.Context(), store, e.Response, e.Receipt.RequestHash); err == nil {
		t.Error("a wrong hash passes")
	}
	lost := e.Response
	lost.Blob = ""
	if _, err := ReadBody(t.Context(), store, lost, e.Receipt.ResponseHash); err == nil {
		t.Error("a lost body is read")
	}
}
