package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
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

// Bodies go once their time is over, those that were written since stay, and a gateway
// whose bodies cannot be collected says so at its start.
func TestOldBodies(t *testing.T) {
	dir := t.TempDir()
	store, err := blobfs.Open(dir, blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string, age time.Duration) agon.Digest {
		d, err := store.Put(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, d.Hex()[:2], d.Hex()[2:]), at, at); err != nil {
			t.Fatal(err)
		}
		return d
	}
	old, young := put("old", 49*time.Hour), put("young", 47*time.Hour)
	said := make(lines, 10)
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}, Bodies: store, KeepBodies: 48 * time.Hour, Log: slog.New(slog.NewTextHandler(said, nil))})
	if line := <-said; !strings.Contains(line, "bodies=1 bytes=3") {
		t.Errorf("the log says %q", line)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	for d, want := range map[agon.Digest]bool{old: false, young: true} {
		if has, err := store.Has(t.Context(), d); has != want || err != nil {
			t.Errorf("%s: kept %v, %v", d, has, err)
		}
	}
	if _, err := New(Config{Bodies: justStore{store}, KeepBodies: time.Hour}); err == nil {
		t.Error("a place that cannot be collected is taken")
	}
}

// lines takes what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// justStore is a Store and no more.
type justStore struct{ blob.Store }
