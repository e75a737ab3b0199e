package play

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/artifact"
)

// local is an artifact configuration that trusts srv and reaches this machine.
func local(srv *httptest.Server) artifact.Config {
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return artifact.Config{TLS: &tls.Config{RootCAs: pool}, Allow: func(a netip.Addr) bool { return a.IsLoopback() }}
}

// The offset of a fixed slot, computed by another implementation.
func TestHeldoutOffset(t *testing.T) {
	if got := HeldoutOffset("org/set", "default", "test", 0, 100, "slot-7", "42", 1000); got != 875 {
		t.Errorf("offset %d, want 875", got)
	}
}

// Row 56: rows of the rotated slice reach the benchmark as a manifest; sources
// and tokens reach no box.
func TestHeldout(t *testing.T) {
	var asked []string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Encode()+" "+r.Header.Get("Authorization"))
		offset, _ := strconv.Atoi(q.Get("offset"))
		n, _ := strconv.Atoi(q.Get("length"))
		if len(asked) == 1 {
			http.Error(w, "busy", http.StatusBadGateway) // the first try fails
			return
		}
		var rows []map[string]any
		for i := range n {
			rows = append(rows, map[string]any{"row_idx": offset + i, "row": map[string]any{"a": fmt.Sprintf("row %d ", offset+i), "b": "", "c": nil}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"rows": rows})
	}))
	defer srv.Close()
	w := newWorld(t)
	w.kind.cfg.Artifacts, w.kind.cfg.RowsURL = local(srv), srv.URL
	sources := `{"version": 3, "documents": ["plain text", {"text": "with", "category": "c"}, {"dataset": "org/set", "split": "test", "text_columns": ["a", "b", "c"], "limit": 150, "rotate": "yes", "row_count": 1000}]}`
	w.task(edit(oneTask, "result_path = \"out/result.json\"\n", ""), map[string]string{
		"private": fmt.Sprintf("[benchmark_env]\n%s = '''%s'''\n%s = \"slot-7\"\n%s = \"42\"\nHF_TOKEN = \"hf_secret_token\"\nOTHER = \"kept\"\n", heldoutSources, sources, heldoutSlot, heldoutNumber),
		"bench.py": `import json, os
with open(os.environ["AUTORESEARCH_PRIVATE_HELDOUT_MANIFEST"]) as f:
    m = json.load(f)
docs = m["documents"]
assert docs[0] == {"text": "plain text"} and docs[1] == {"text": "with", "category": "c"}, docs[:2]
assert docs[2]["category"] == "org/set" and m["metadata"]["source_count"] == 3 and m["metadata"]["source_version"] == "3", m["metadata"]
assert os.environ["AUTORESEARCH_HELDOUT_DATASET"] == "validator-private-shard" and os.environ["OTHER"] == "kept"
print([k for k in os.environ if "SOURCES" in k or "TOKEN" in k or "SYNC" in k])
print("score=" + docs[2]["text"].split()[1] + ".%d" % len(docs))
`,
		"submission/score.txt": "1.0\n",
	})
	rec, obs := w.play(w.submission(scorePatch("2"), Claim{}), w.run())
	want := HeldoutOffset("org/set", "default", "test", 0, 150, "slot-7", "42", 1000)
	log := string(rec.Files[LogFile])
	if obs.Status != StatusAccepted || obs.Metrics["score"] != float64(want)+0.152 {
		t.Fatalf("%+v, want offset %d and 152 documents\n%s", obs, want, log)
	}
	if !strings.Contains(log, "\n[]\n") || strings.Contains(log, "hf_secret_token") || !strings.Contains(log, "heldout_prefetch=ok") {
		t.Errorf("log:\n%s", log)
	}
	if len(asked) != 3 || !strings.HasSuffix(asked[1], " Bearer hf_secret_token") || !strings.Contains(asked[2], "length=50") {
		t.Errorf("asked %v", asked)
	}
}

func TestHeldoutRefused(t *testing.T) {
	k := New(Config{})
	for _, raw := range []string{
		"", "1", "{}", "[]", "[1]", `[{"dataset": "noslash", "split": "s", "text_column": "t"}]`, `[{"dataset": "a/b", "text_column": "t"}]`,
		`[{"dataset": "a/b", "split": "s", "text_column": "t", "limit": 100000}]`, `["` + strings.Repeat("x", maxHeldoutBytes+1) + `"]`,
	} {
		if _, _, _, err := k.prefetch(t.Context(), raw, nil); err == nil {
			t.Errorf("%.60s is accepted", raw)
		}
	}
}

// Rows 54 and 55, as a replay sees them.
func TestArtifact(t *testing.T) {
	data := []byte("weights\n")
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/x", http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write(data)
	}))
	defer srv.Close()
	h := sha256.Sum256(data)
	good := Claim{ArtifactURI: srv.URL + "/moved", ArtifactSHA256: hex.EncodeToString(h[:]), ArtifactBytes: int64(len(data))}
	bad := good
	bad.ArtifactSHA256 = strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		mode, patch string
		claim       Claim
		status      string
		notes       string
	}{
		"alone":                {"allowed", "", good, StatusAccepted, ""},
		"with a patch":         {"required", scorePatch("2"), good, StatusAccepted, ""},
		"wrong digest":         {"allowed", "", bad, StatusError, "sha256 is not"},
		"missing but wanted":   {"required", scorePatch("2"), Claim{}, StatusError, "wants an artifact"},
		"unwanted and nothing": {"", "", good, StatusRejected, "takes no artifacts"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kind.cfg.Artifacts = local(srv)
			toml := edit(oneTask, "baseline", "artifact = \""+c.mode+"\"\nbaseline")
			w.task(toml, with(oneBase, "bench.py", `import json, os
os.makedirs("out")
with open(os.environ["AUTORESEARCH_SUBMISSION_ARTIFACT_PATH"], "rb") as f:
    json.dump({"score": len(f.read())}, open("out/result.json", "w"))
`))
			rec, obs := w.play(w.submission(c.patch, c.claim), w.run())
			if rec.Outcome != agon.OutcomeOK || obs.Status != c.status || !strings.Contains(obs.Notes, c.notes) {
				t.Fatalf("%s %+v\n%s", rec.Outcome, obs, rec.Files[LogFile])
			}
			if c.status == StatusAccepted && obs.Metrics["score"] != 8 {
				t.Errorf("score %v", obs.Metrics)
			}
		})
	}
}
