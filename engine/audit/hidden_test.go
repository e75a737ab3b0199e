package audit

import (
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/translog"
)

// A commitment to a hidden task is checked against the log, and opened when the
// task has retired; what does not open it, or was promised late, is named.
func TestHiddenTasks(t *testing.T) {
	const salt, key = "00112233445566778899aabbccddeeff", "hidden/0123456789ab"
	digest, at := agon.Sum([]byte("task")), time.Unix(1700000000, 0).UTC()
	c, err := seeds.TaskCommitment(salt, digest)
	must(t, err)
	closed := client.HiddenTask{Task: key, Commitment: c, CommittedAt: at}
	opened := closed
	opened.RetiredAt, opened.Salt, opened.Digest, opened.Name = &at, salt, digest, "set/name"
	for _, x := range []struct {
		name         string
		shown        client.HiddenTask
		late         bool
		played       agon.Digest
		logged       client.HiddenTask
		wrong, ok    string
		unchecked    string
		withoutProof bool
	}{
		{name: "hidden", shown: closed, logged: closed, ok: "1 were committed to in time, 0 of them"},
		{name: "retired", shown: opened, logged: closed, played: digest, ok: "1 of them have retired"},
		{name: "another digest", shown: func() client.HiddenTask { h := opened; h.Digest = agon.Sum(nil); return h }(), logged: closed, wrong: "is not what was committed to"},
		{name: "another salt", shown: func() client.HiddenTask { h := opened; h.Salt = strings.Repeat("0", 32); return h }(), logged: closed, wrong: "is not what was committed to"},
		{name: "another commitment", shown: func() client.HiddenTask { h := closed; h.Commitment = digest; return h }(), logged: closed, wrong: "the log says otherwise"},
		{name: "played on another", shown: opened, logged: closed, played: agon.Sum(nil), wrong: "was played on"},
		{name: "late", shown: closed, logged: closed, late: true, unchecked: "after the submission was entered"},
		{name: "nothing", shown: client.HiddenTask{Task: "hidden/other"}, logged: closed, unchecked: "has committed to nothing"},
		{name: "no proof", shown: closed, logged: closed, withoutProof: true, unchecked: "has no entry"},
	} {
		t.Run(x.name, func(t *testing.T) {
			log, err := translog.LoadKey(filepath.Join(t.TempDir(), "log.key"), func(ed25519.PublicKey) string { return "agon.test/log" })
			must(t, err)
			b := &Bundle{Proofs: map[string]*client.LogProof{}}
			b.Arena.ID, b.Submission.ID, b.Arena.Hidden = "demo", "sub", []client.HiddenTask{x.shown}
			r := Run{}
			r.Run.Tasks = []agon.TaskRef{{Key: key, Digest: x.played, Hidden: true}}
			b.Runs = []Run{r}
			src := &leaves{}
			l, err := translog.Open(t.Context(), translog.Config{Storage: translog.Dir(filepath.Join(t.TempDir(), "log")), Source: src, Key: log})
			must(t, err)
			facts := []struct {
				typ, id string
				open    any
			}{{translog.TypeTask, "demo/" + key, x.logged}, {translog.TypeSubmission, "sub", nil}, {translog.TypeRetired, "demo/" + key + "/opened", x.shown}}
			if x.late {
				facts[0], facts[1] = facts[1], facts[0]
			}
			for i, f := range facts {
				leaf, err := translog.NewLeaf(translog.Leaf{Index: int64(i), Type: f.typ, ID: f.id, Salt: l.Salt(int64(i))}, "demo", at, f.open, nil)
				must(t, err)
				*src = append(*src, leaf)
			}
			head, err := l.Publish(t.Context())
			must(t, err)
			for _, f := range *src {
				p, err := l.Inclusion(f.Index, head)
				must(t, err)
				b.Proofs[f.Type+"/"+f.ID] = &client.LogProof{Index: f.Index, Entry: f.Entry, Hashes: translog.HashTexts(p), Checkpoint: head.Text, Key: log.Public()}
			}
			if x.withoutProof {
				delete(b.Proofs, translog.TypeTask+"/demo/"+key)
			}
			k := &checker{b: b, Report: Report{Log: &Head{Key: log.Public()}}}
			k.hidden()
			words := map[string]string{"ok": "ok", "warn": "open", "fail": "wrong"}
			text := ""
			for _, c := range k.Checks {
				text += " " + words[c.Status] + ": " + c.Detail
			}
			for word, want := range map[string]string{"ok": x.ok, "open": x.unchecked, "wrong": x.wrong} {
				if got := strings.Contains(text, word+": "); got != (want != "") || !strings.Contains(text, want) {
					t.Errorf("%s: want %s %q, got%s", x.name, word, want, text)
				}
			}
		})
	}
}
