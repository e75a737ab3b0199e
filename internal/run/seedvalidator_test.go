package run

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/kind/claim"
	"github.com/agon-arena/agon/wire/harnyx"
)

// Pairs of a pushed batch in real boxes: grades, hydrated citations, usage, and
// what a script can do wrong.
func TestSeedPairs(t *testing.T) {
	o := testOptions(t.TempDir())
	d, root, err := openDriver(t.Context(), o)
	if err != nil {
		t.Fatalf("no box: %v", err)
	}
	dir := t.TempDir()
	s := &seedPlayer{}
	if s.blobs, err = blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{}); err != nil {
		t.Fatal(err)
	}
	k := kinds(o, root)[claim.Name]
	if s.player, err = newPlayer(t.Context(), o, d, root, map[string]kind.Kind{k.Name(): k}, s.blobs, filepath.Join(dir, "trees")); err != nil {
		t.Fatal(err)
	}
	defer s.player.close()
	head := "from caster_miner_sdk.decorators import entrypoint\nfrom caster_miner_sdk.api import search_web\n\n@entrypoint(\"evaluate_criterion\")\nasync def evaluate_criterion(request):\n"
	pair := harnyx.Pair{
		BatchID: "99999999-2222-4333-8444-555555555555", Candidate: harnyx.Candidate{UID: 4, ArtifactID: "aaaaaaaa-2222-4333-8444-555555555555"},
		Claim: harnyx.Claim{
			ClaimID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Text: "The harbour is deep.", BudgetUSD: .05,
			Rubric:    harnyx.Rubric{Title: "Accuracy", Description: "Right?", Options: harnyx.Options{{Value: -1, Description: "Fail"}, {Value: 1, Description: "Pass"}}},
			Reference: harnyx.Reference{Verdict: 1, Justification: "The harbour is deep, the report says.", Citations: []harnyx.Citation{}, Spans: []harnyx.Span{}},
		},
	}
	for i, c := range []struct {
		body, code string
		verdict    float64
	}{
		{"    r = await search_web(\"harbour report\")\n    x = r.results[0]\n    return {\"verdict\": 1, \"justification\": \"The harbour is deep, the report says.\", \"citations\": [{\"receipt_id\": r.receipt_id, \"result_id\": x.result_id}]}\n", "", .5},
		{"    return {\"verdict\": -1, \"justification\": \"no\", \"citations\": []}\n", "", 0},
		{"    return {\"verdict\": 7, \"justification\": \"no\", \"citations\": []}\n", harnyx.CodeInvocation, 0},
		{"    raise RuntimeError(\"sandbox_start_failed\")\n", harnyx.CodeInvocation, 0},
	} {
		pair.Script, pair.Attempt = []byte(head+c.body), 1
		pair.BatchID = fmt.Sprintf("99999999-2222-4333-8444-%012d", i)
		r, err := s.play(t.Context(), pair)
		if err != nil || r.ErrorCode != c.code || r.VerdictScore != c.verdict {
			t.Errorf("%q: %v %+v", c.body, err, r)
			continue
		}
		if r.Session.UID != 4 || len(r.Session.SessionID) != 36 {
			t.Errorf("session %+v", r.Session)
		}
		if i == 0 && (len(r.Citations) != 1 || !strings.Contains(r.Citations[0].URL, "harbour") || r.Usage.SearchCalls != 1 || r.Usage.SearchCost != .0025) {
			t.Errorf("citations %+v, usage %+v", r.Citations, r.Usage)
		}
	}
}

func TestSeedPlatform(t *testing.T) {
	key, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), `sig="`)
		sig, _ := hex.DecodeString(strings.TrimSuffix(rest, `"`))
		pub, _ := auth.ParseSS58(key.SS58())
		if auth.VerifyPublic(auth.Sr25519, pub, signing.Caster(r.Method, r.URL.RequestURI(), b.Bytes()), sig) != nil {
			http.Error(w, "no", 401)
			return
		}
		got = append(got, r.Method+" "+r.URL.Path)
		_, _ = w.Write([]byte("script"))
	}))
	defer srv.Close()
	p, err := newSeedPlatform(srv.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := p.fetch(t.Context(), "b", "a"); err != nil || string(b) != "script" || got[0] != "GET /v1/miner-task-batches/b/artifacts/a" {
		t.Errorf("%v %q %v", err, b, got)
	}
	body, _ := json.Marshal(map[string]string{"base_url": "http://v"})
	if _, err := p.send(t.Context(), "POST", "/v1/validators/register", body, 100); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"ftp://x", "https://u@x", "https://x/path", "x", "https://x?y"} {
		if _, err := newSeedPlatform(bad, key); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
