package wire

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

func TestPreEval(t *testing.T) {
	w, hashes := filled(t)
	const v1, v2, purpose = "/api/miners/pre-eval", "/api/v2/miners/pre-eval", "trajectoryrl-report"
	for name, c := range map[string]struct {
		by      byte
		path    string
		miner   byte
		hash    string
		purpose string
		status  int
		want    string // of the answer, as printed
	}{
		"passed":                   {'v', v1, 'b', hashes['b'], purpose, 200, "allowed:true pack_hash:" + hashes['b'] + " verified:true"},
		"failed on merit":          {'v', v1, 'e', hashes['e'], purpose, 200, "allowed:true pack_hash:" + hashes['e'] + " verified:true"},
		"gaming":                   {'v', v1, 'd', hashes['d'], purpose, 200, "allowed:false pack_hash:" + hashes['d'] + " reason:hardcoded verified:true"},
		"a copy":                   {'w', v2, 'c', hashes['c'], purpose, 200, "allowed:false pack_hash:" + hashes['c'] + " reason:near_copy verified:true"},
		"pending":                  {'v', v1, 'f', hashes['f'], purpose, 200, "allowed:true pack_hash:" + hashes['f'] + " verified:false"},
		"unknown":                  {'v', v1, 'f', strings.Repeat("0", 64), purpose, 200, "verified:false"},
		"another's pack":           {'v', v1, 'f', hashes['d'], purpose, 200, "verified:false"},
		"unsigned at v2":           {0, v2, 'd', hashes['d'], "", 200, "reason:hardcoded"},
		"unsigned at v1":           {0, v1, 'd', hashes['d'], "", 403, "validator_hotkey, timestamp, and signature are required"},
		"no hash":                  {'v', v1, 'd', "", purpose, 400, "Either pack_hash or epoch_number is required"},
		"bad hash":                 {'v', v1, 'd', "xyz", purpose, 400, "pack_hash must be 64 hex characters"},
		"an outsider's pack":       {'v', v1, 'x', hashes['d'], purpose, 403, "miner_hotkey is not a registered miner on-chain"},
		"signed by a miner":        {'a', v1, 'd', hashes['d'], purpose, 403, "Hotkey is not a registered validator on-chain"},
		"signed by an outsider":    {'x', v1, 'd', hashes['d'], purpose, 403, "Hotkey is not a registered validator on-chain"},
		"signature of another use": {'v', v1, 'd', hashes['d'], "trajectoryrl-logs", 403, "Invalid signature"},
		"bad signature at v2":      {'v', v2, 'd', hashes['d'], "trajectoryrl-submit", 403, "Invalid signature"},
	} {
		body := map[string]any{"miner_hotkey": w.ss58(c.miner)}
		if c.hash != "" {
			body["pack_hash"] = c.hash
		}
		status, got := w.post(c.by, c.path, c.purpose, body)
		if text := fmt.Sprint(got); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, c.status, c.want)
		}
	}
	if status, got := w.post(0, v2, "", map[string]any{"miner_hotkey": w.ss58('b'), "epoch_number": 3}); status != 200 || got["pack_hash"] != hashes['b'] {
		t.Errorf("by epoch: %d %v", status, got)
	}
	body := map[string]any{"miner_hotkey": w.ss58('b'), "pack_hash": hashes['b'], "timestamp": w.now().Unix() - 400}
	if status, got := w.post('v', v1, purpose, body); status != 403 || !strings.Contains(fmt.Sprint(got["error"]), "Timestamp outside") {
		t.Errorf("old: %d %v", status, got)
	}
}

func TestWebSubmit(t *testing.T) {
	w := newWorld(t)
	const path, purpose = "/api/v2/miners/submit", "trajectoryrl-miner-submit"
	p := packfile.Build(packfile.BuildOptions{Policy: "Answer in five lines and never send mail.", Name: "short"})
	body := func(p *packfile.Pack) map[string]any {
		return map[string]any{"pack_hash": p.Hash, "pack_content": string(p.Canonical)}
	}
	big := packfile.Build(packfile.BuildOptions{Policy: strings.Repeat("x", 32_768)})
	empty := packfile.Build(packfile.BuildOptions{})
	other := body(p)
	other["pack_hash"] = strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		by      byte
		body    map[string]any
		purpose string
		status  int
		want    string
	}{
		"another hash":     {'a', other, purpose, 400, "pack_hash does not match pack_content"},
		"too large":        {'a', body(big), purpose, 400, "pack_content must be ≤32768 bytes"},
		"no policy":        {'a', body(empty), purpose, 400, "pack_content must be valid pack.json containing files.SKILL.md"},
		"no JSON":          {'a', map[string]any{"pack_hash": p.Hash, "pack_content": "{"}, purpose, 400, "pack_content must be valid pack.json containing files.SKILL.md"},
		"no content":       {'a', map[string]any{"pack_hash": p.Hash}, purpose, 400, "pack_content is required"},
		"content no text":  {'a', map[string]any{"pack_hash": p.Hash, "pack_content": 5}, purpose, 400, "pack_content must be a string"},
		"time with dot":    {'a', map[string]any{"pack_hash": p.Hash, "pack_content": string(p.Canonical), "timestamp": 1.5}, purpose, 400, "timestamp must be an integer"},
		"unsigned":         {'a', map[string]any{"pack_hash": p.Hash, "pack_content": string(p.Canonical), "miner_hotkey": w.ss58('a')}, "", 403, "are required"},
		"an outsider":      {'x', body(p), purpose, 403, "miner_hotkey is not a registered miner on-chain"},
		"another use":      {'a', body(p), "trajectoryrl-report", 403, "Invalid signature"},
		"the arena's rule": {'a', body(packfile.New(packfile.Of(map[string]any{"schema_version": 1, "files": map[string]any{"AGENTS.md": "x"}}))), purpose, 400, "Missing required field: tool_policy"},
	} {
		status, got := w.post(c.by, path, c.purpose, c.body)
		if status != c.status || !strings.Contains(fmt.Sprint(got["error"]), c.want) || got["success"] != false {
			t.Errorf("%s: %d %v, want %d %s", name, status, got, c.status, c.want)
		}
	}
	if status, raw := w.do("POST", path, "application/json", bytes.Repeat([]byte(" "), maxBody+1)); status != 400 || !bytes.Contains(raw, []byte("body must be ≤65536 bytes")) {
		t.Errorf("huge: %d %s", status, raw)
	}
	if got := rows(t, w.get("/api/queue", 200), "queue"); len(got) != 0 {
		t.Fatalf("a refused pack was entered: %v", got)
	}
	status, got := w.post('a', path, purpose, body(p))
	url := "http://arena.example:8900/api/packs/" + p.Hash + ".json"
	if status != 200 || got["pack_url"] != url || got["pre_eval_status"] != "pending_eval" || got["pack_hash"] != p.Hash || got["cooldown_seconds"] != 1200.0 || got["success"] != true {
		t.Fatalf("submit: %d %v", status, got)
	}
	id := got["submission_id"]
	if q := rows(t, w.get("/api/queue", 200), "queue"); len(q) != 1 || q[0]["submission_id"] != id {
		t.Errorf("queue %v", q)
	}
	w.skip(1199 * time.Second)
	status, got = w.post('a', path, purpose, body(p))
	if status != 429 || got["error"] != "cooldown" || got["cooldown_seconds"] != 1200.0 || got["last_upload_at"] == nil || got["next_upload_allowed_at"] == nil {
		t.Errorf("too early: %d %v", status, got)
	}
	w.open() // the wait is in the store, not in memory
	if status, _ = w.post('a', path, purpose, body(p)); status != 429 {
		t.Errorf("too early after a restart: %d", status)
	}
	w.skip(time.Second)
	if status, got = w.post('a', path, purpose, body(p)); status != 200 || got["pack_url"] != url || got["submission_id"] != id {
		t.Errorf("the same again: %d %v", status, got)
	}
	// A name that is none is no reason to refuse a pack.
	odd := packfile.Build(packfile.BuildOptions{Policy: "Keep the day's list short; ask before deleting anything.", Name: strings.Repeat("\U0001F600", 30) + "\u2028[/]\x1b"})
	if status, got = w.post('c', path, purpose, body(odd)); status != 200 {
		t.Errorf("odd name: %d %v", status, got)
	}
	// A pack that the gate excludes is taken in and told so.
	gaming, err := packfile.Read(samplePack(t, "gaming"))
	must(t, err)
	if status, got = w.post('b', path, purpose, body(gaming)); status != 200 || got["pre_eval_status"] != "failed" {
		t.Errorf("gaming: %d %v", status, got)
	}
}

func TestHeartbeat(t *testing.T) {
	w := newWorld(t)
	at := w.now().Unix()
	for _, path := range []string{"/api/validators/heartbeat", "/api/v2/validators/heartbeat"} {
		status, got := w.post('w', path, "trajectoryrl-heartbeat", map[string]any{"version": "0.4.10\x1b[2J", "llm_model": "glm-5", "bench_version": "4.0", "last_eval_at": at - 60})
		if status != 200 || got["validator"].(map[string]any)["hotkey"] != w.ss58('w') {
			t.Fatalf("%s: %d %v", path, status, got)
		}
		w.skip(2 * time.Second)
	}
	w.open() // it outlives the process
	v := rows(t, w.get("/api/validators", 200), "validators")[0]
	if v["hotkey"] != w.ss58('w') || v["version"] != "0.4.10·(2J" || v["llmModel"] != "glm-5" || v["benchVersion"] != "4.0" || v["lastEvalAt"] != "2026-03-04T05:05:07.000Z" || v["lastSeen"] == nil {
		t.Errorf("row %v", v)
	}
	if status, got := w.post('a', "/api/validators/heartbeat", "trajectoryrl-heartbeat", map[string]any{"version": "1"}); status != 403 {
		t.Errorf("a miner: %d %v", status, got)
	}
	if status, got := w.post('v', "/api/validators/heartbeat", "trajectoryrl-submit", map[string]any{"version": "1"}); status != 401 {
		t.Errorf("another use: %d %v", status, got)
	}
}

func TestScoreSubmit(t *testing.T) {
	w, hashes := filled(t)
	const path, purpose = "/api/scores/submit", "trajectoryrl-submit"
	body := func(change map[string]any) map[string]any {
		m := map[string]any{
			"miner_hotkey": w.ss58('f'), "miner_uid": 8, "block_height": 49_990, "score": 0.5, "ema_score": 0.5, "cost": 0.04, "ema_cost": 0.04, "weight": 0, "qualified": false, "version": "0.4.10",
			"pack_hash": hashes['f'], "llm_model": "glm-5", "scenario_results": map[string]any{"inbox_triage": map[string]any{"score": 1, "weight": 1.5, "qualified": true, "cost": 0.03}, "stand_up": map[string]any{"score": 0, "weight": 1, "qualified": false}},
		}
		for k, v := range change {
			m[k] = v
		}
		return m
	}
	for name, change := range map[string]map[string]any{
		"score": {"score": 101}, "negative": {"score": -1}, "no flag": {"qualified": nil}, "flag": {"qualified": "yes"}, "cost": {"cost": -1}, "block": {"block_height": -1}, "no block": {"block_height": nil},
		"rejected with a score": {"rejected": true, "rejection_stage": "pack_fetch"}, "rejected without stage": {"rejected": true, "score": 0}, "stage": {"rejection_stage": "other"}, "scenarios": {"scenario_results": 5},
		"miner": {"miner_hotkey": "me"}, "hash": {"pack_hash": "zz"},
	} {
		if status, got := w.post('v', path, purpose, body(change)); status != 400 || got["code"] == nil {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	if status, got := w.post('a', path, purpose, body(nil)); status != 403 {
		t.Errorf("a miner: %d %v", status, got)
	}
	for _, score := range []float64{0.25, 0.6} { // the same block again replaces, signed later
		w.skip(time.Second)
		status, got := w.post('v', path, purpose, body(map[string]any{"score": score}))
		if res, _ := got["result"].(map[string]any); status != 200 || res["score"] != score || res["block_height"] != 49_990.0 {
			t.Fatalf("submit: %d %v", status, got)
		}
	}
	if status, _ := w.post('w', "/api/v2/scores/submit", purpose, body(map[string]any{"score": 0, "rejected": true, "rejection_stage": "integrity_check", "rejection_detail": "NCD: too similar [/]", "scenario_results": nil})); status != 200 {
		t.Errorf("rejected: %d", status)
	}
	w.open()
	f := w.get("/api/miners/"+w.ss58('f'), 200)
	list := rows(t, f, "validators")
	if len(list) != 2 || f["hasDivergence"] != false {
		t.Fatalf("f: %v", list)
	}
	for _, v := range list {
		switch v["hotkey"] {
		case w.ss58('v'):
			if v["score"] != 0.6 || v["costUsd"] != 0.04 || v["blockHeight"] != 49_990.0 || len(rows(t, v, "scenarios")) != 2 {
				t.Errorf("v: %v", v)
			}
		case w.ss58('w'):
			if v["rejected"] != true || v["rejectionStage"] != "integrity_check" || v["rejectionDetail"] != "NCD: too similar (/)" {
				t.Errorf("w: %v", v)
			}
		}
	}
	// What the arena saw itself is not overwritten by a report.
	if status, _ := w.post('v', path, purpose, body(map[string]any{"miner_hotkey": w.ss58('b'), "pack_hash": hashes['b'], "score": 0})); status != 200 {
		t.Errorf("report of b: %d", status)
	}
	if b := rows(t, w.get("/api/miners/"+w.ss58('b'), 200), "validators"); len(b) != 2 || b[0]["score"] != 1.0 || b[1]["score"] != 1.0 {
		t.Errorf("b: %v", b)
	}
}

// member is one file of an archive.
type member struct {
	name, content string
	typ           byte
}

func archive(t testing.TB, list ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	tw := tar.NewWriter(gz)
	for _, m := range list {
		h := &tar.Header{Name: m.name, Typeflag: m.typ, Mode: 0o644, Size: int64(len(m.content))}
		if m.typ == 0 {
			h.Typeflag = tar.TypeReg
		}
		if m.typ == tar.TypeSymlink {
			h.Linkname = "/etc/passwd"
		}
		must(t, tw.WriteHeader(h))
		_, err := tw.Write([]byte(m.content))
		must(t, err)
	}
	must(t, tw.Close())
	must(t, gz.Close())
	return out.Bytes()
}

// form makes the multipart body of an upload, signed by k.
func (w *world) form(k byte, purpose string, archive []byte, values map[string]string) (ctype string, body []byte) {
	w.t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	ts := fmt.Sprint(w.now().Unix())
	sig, err := w.keys[k].Sign(signin.Message(purpose, w.ss58(k), ts))
	must(w.t, err)
	all := map[string]string{"validator_hotkey": w.ss58(k), "timestamp": ts, "signature": "0x" + hex.EncodeToString(sig), "eval_id": "20260304_0506_w8", "block_height": "49990"}
	for n, v := range values {
		all[n] = v
	}
	for _, n := range sorted(all) {
		must(w.t, m.WriteField(n, all[n]))
	}
	if archive != nil {
		f, err := m.CreateFormFile("log_archive", "logs.tar.gz")
		must(w.t, err)
		_, err = f.Write(archive)
		must(w.t, err)
	}
	must(w.t, m.Close())
	return m.FormDataContentType(), b.Bytes()
}

func TestUploads(t *testing.T) {
	w, hashes := filled(t)
	const logs, cycle, purpose = "/api/validators/logs/upload", "/api/validators/logs/cycle", "trajectoryrl-logs"
	good := archive(t, member{name: "validator.log", content: "hello\n"}, member{name: "sub", typ: tar.TypeDir}, member{name: "sub/miner.log", content: "x"})
	of := map[string]string{"miner_hotkey": w.ss58('b'), "miner_uid": "4", "pack_hash": hashes['b']}
	with := func(change map[string]string) map[string]string {
		m := map[string]string{}
		for k, v := range of {
			m[k] = v
		}
		for k, v := range change {
			m[k] = v
		}
		return m
	}
	long := make([]byte, 11<<20)
	for i := range long { // it does not compress
		long[i] = byte(i*i>>3 ^ i>>7)
	}
	for name, c := range map[string]struct {
		by      byte
		path    string
		purpose string
		archive []byte
		values  map[string]string
		status  int
		want    string
	}{
		"link":           {'v', cycle, purpose, archive(t, member{name: "a", typ: tar.TypeSymlink}), nil, 400, "log_archive must be a valid .tar.gz file"},
		"climbing":       {'v', cycle, purpose, archive(t, member{name: "../../x"}), nil, 400, "log_archive must be a valid .tar.gz file"},
		"absolute":       {'v', cycle, purpose, archive(t, member{name: "/etc/x"}), nil, 400, "log_archive must be a valid .tar.gz file"},
		"escape in name": {'v', cycle, purpose, archive(t, member{name: "a\x1b[2J"}), nil, 400, "log_archive must be a valid .tar.gz file"},
		"no gzip":        {'v', cycle, purpose, []byte("plain text"), nil, 400, "log_archive must be a valid .tar.gz file"},
		"cut off":        {'v', cycle, purpose, good[:len(good)-9], nil, 400, "log_archive must be a valid .tar.gz file"},
		"empty":          {'v', cycle, purpose, archive(t), nil, 400, "log_archive must be a valid .tar.gz file"},
		"none":           {'v', cycle, purpose, nil, nil, 400, "log_archive is required"},
		"too large":      {'v', cycle, purpose, long, nil, 400, "log_archive exceeds 10MB limit"},
		"one over":       {'v', cycle, purpose, long[:maxArchive+1], nil, 400, "log_archive exceeds 10MB limit"},
		"long value":     {'v', cycle, purpose, good, map[string]string{"note": strings.Repeat("x", 1001)}, 400, "note is too long"},
		"eval id":        {'v', cycle, purpose, good, map[string]string{"eval_id": "../x"}, 400, "eval_id must be"},
		"block":          {'v', cycle, purpose, good, map[string]string{"block_height": "-1"}, 400, "block_height must be"},
		"another use":    {'v', cycle, "trajectoryrl-submit", good, nil, 403, "Invalid signature"},
		"a miner":        {'b', cycle, purpose, good, nil, 403, "Hotkey is not a registered validator on-chain"},
		"no record":      {'v', logs, purpose, good, map[string]string{"miner_hotkey": w.ss58('f'), "pack_hash": hashes['f']}, 404, "No eval record found for this validator/miner/block combination"},
		"no hash":        {'v', logs, purpose, good, with(map[string]string{"pack_hash": ""}), 400, "pack_hash must be"},
	} {
		ctype, body := w.form(c.by, c.purpose, c.archive, c.values)
		if status, raw := w.do("POST", c.path, ctype, body); status != c.status || !bytes.Contains(raw, []byte(c.want)) || !bytes.Contains(raw, []byte(`"success":false`)) {
			t.Errorf("%s: %d %s, want %d %s", name, status, raw, c.status, c.want)
		}
	}
	before := len(rows(t, w.get("/api/eval-logs", 200), "logs"))
	if left, err := w.cfg.Documents.Names(""); err != nil || len(left) != 0 {
		t.Fatalf("a refused upload left %v, %v", left, err)
	}
	w.skip(time.Minute)
	ctype, body := w.form('v', purpose, good, of)
	status, raw := w.do("POST", logs, ctype, body)
	if status != 200 || !bytes.Contains(raw, []byte(fmt.Sprintf(`"size_bytes":%d`, len(good)))) {
		t.Fatalf("upload: %d %s", status, raw)
	}
	ctype, body = w.form('w', purpose, good, map[string]string{"eval_id": "mine"})
	if status, raw = w.do("POST", cycle, ctype, body); status != 200 {
		t.Fatalf("cycle: %d %s", status, raw)
	}
	w.open()
	all := rows(t, w.get("/api/eval-logs", 200), "logs")
	if len(all) != before+2 {
		t.Fatalf("%d logs, want two more than %d", len(all), before)
	}
	one := rows(t, w.get("/api/eval-logs?eval_id=mine", 200), "logs")
	if len(one) != 1 || one[0]["logType"] != "cycle" || one[0]["validatorHotkey"] != w.ss58('w') || one[0]["minerHotkey"] != nil {
		t.Fatalf("cycle: %v", one)
	}
	status, raw = w.do("GET", strings.TrimPrefix(one[0]["gcsUrl"].(string), "http://arena.example:8900"), "", nil)
	if status != 200 || !bytes.Equal(raw, good) {
		t.Errorf("archive: %d", status)
	}
	// Only so many bytes are listed: the oldest go.
	w.cfg.Keep = int64(len(good)) + 1
	w.open()
	w.skip(time.Minute)
	ctype, body = w.form('v', purpose, good, map[string]string{"eval_id": "last"})
	if status, raw = w.do("POST", cycle, ctype, body); status != 200 {
		t.Fatalf("last: %d %s", status, raw)
	}
	if got := rows(t, w.get("/api/eval-logs", 200), "logs"); len(got) != before+1 || got[0]["evalId"] != "last" {
		t.Errorf("%d logs, the first %v", len(got), got[0])
	}
	if left, err := w.cfg.Documents.Names(uploadPrefix); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if left, err := os.ReadDir(w.cfg.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files: %v, %v", left, err)
	}
}

// Whose archive goes: a validator that sends many pushes out its own.
func TestSurplusOfUploads(t *testing.T) {
	p := &posts{}
	add := func(validator string, n int, size int64) {
		for range n {
			p.logs, p.held = append(p.logs, &upload{Validator: validator, Size: size}), p.held+size
		}
	}
	want := func(what, validator string, most int64, want int) {
		t.Helper()
		if got := p.surplus(validator, most); got != want {
			t.Errorf("%s: %d goes, want %d", what, got, want)
		}
	}
	add("one", 3, 10)
	want("room", "one", 30, -1)
	want("too many bytes", "one", 29, 0)
	add("two", maxOf, 1)
	want("as many as it may have", "two", 1<<30, -1)
	add("two", 1, 1)
	want("one more", "two", 1<<30, 3)
	want("of another", "one", 1<<30, -1)
	for i := range 9 {
		add(fmt.Sprint("v", i), maxOf, 1)
	}
	want("too many", "v8", 1<<30, 0)
	p = &posts{}
	add("one", 1, 10)
	want("one alone, too large", "one", 5, -1)
}

// Archives that an older program kept as files are taken over with the documents that name them;
// a file that no document names is of a crash. One whose file is gone is answered as any unknown.
func TestTakenOverUploads(t *testing.T) {
	w, _ := filled(t)
	good := archive(t, member{name: "validator.log", content: "of an older program\n"})
	old := folder.Folder(w.cfg.Dir)
	file := func(name string) string { return filepath.Join(w.cfg.Dir, uploadPrefix+name+".tar.gz") }
	for _, name := range []string{"one", "two"} {
		must(t, old.Put(uploadPrefix+name, map[string]any{"id": uploadPrefix + name, "validator": w.ss58('v'), "eval_id": name, "type": "cycle", "size": len(good), "at": w.now()}))
	}
	must(t, os.WriteFile(file("one"), good, 0o600))
	must(t, os.WriteFile(file("orphan"), good, 0o600))
	for range 2 { // the second start finds all of it taken over
		docs, err := w.api.Documents(bg, "trajrl", w.cfg.Dir, KeyDocument)
		must(t, err)
		w.cfg.Documents = docs
		w.open()
		for name, want := range map[string]int{"one": 200, "two": 404, "orphan": 404} {
			status, raw := w.do("GET", "/api/logs/"+uploadPrefix+name+".tar.gz", "", nil)
			if status != want || want == 200 && !bytes.Equal(raw, good) {
				t.Errorf("%s: %d %.80s", name, status, raw)
			}
		}
	}
	if left, err := filepath.Glob(file("*")); err != nil || len(left) > 0 {
		t.Errorf("files that stay: %v, %v", left, err)
	}
}

func TestCheckArchiveBounds(t *testing.T) {
	bomb := archive(t, member{name: "validator.log", content: strings.Repeat("\x00", 1<<20)})
	if err := checkArchive(bomb, 1<<20); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("bomb: %v", err)
	}
	if err := checkArchive(bomb, 2<<20); err != nil {
		t.Errorf("within: %v", err)
	}
	// Bytes after the end of the archive count too.
	var tail bytes.Buffer
	gz := gzip.NewWriter(&tail)
	_, err := gz.Write(make([]byte, 1<<20))
	must(t, errors.Join(err, gz.Close()))
	if err := checkArchive(append(archive(t, member{name: "a"}), tail.Bytes()...), 1<<20); err == nil {
		t.Error("a tail was not counted")
	}
	var many []member
	for i := range maxMembers + 1 {
		many = append(many, member{name: fmt.Sprint("f", i)})
	}
	if err := checkArchive(archive(t, many...), maxUnpacked); err == nil || !strings.Contains(err.Error(), "1000 members") {
		t.Errorf("members: %v", err)
	}
}

func TestReadFormTwice(t *testing.T) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	must(t, m.WriteField("eval_id", "a"))
	must(t, m.WriteField("eval_id", "b"))
	must(t, m.Close())
	if _, _, err := readForm(m.FormDataContentType(), &b); err == nil || err.Error() != "eval_id is given twice" {
		t.Errorf("got %v", err)
	}
}

func FuzzReadForm(f *testing.F) {
	f.Add("multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data; name=\"log_archive\"\r\n\r\nabc\r\n--x--\r\n"))
	f.Add("text/plain", []byte("x"))
	f.Fuzz(func(t *testing.T, ctype string, body []byte) {
		values, archive, err := readForm(ctype, bytes.NewReader(body))
		if err == nil && archive == nil || len(values) > maxParts {
			t.Errorf("%v, %d values", archive, len(values))
		}
	})
}

func FuzzCheckArchive(f *testing.F) {
	f.Add(archive(f, member{name: "validator.log", content: "x"}))
	f.Add(archive(f, member{name: "../x"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkArchive(b, 1<<20) != nil {
			return
		}
		gz, err := gzip.NewReader(bytes.NewReader(b))
		must(t, err)
		for tr := tar.NewReader(gz); ; {
			h, err := tr.Next()
			if err == io.EOF {
				return
			}
			must(t, err)
			if !filepath.IsLocal(h.Name) && h.Name != "./" {
				t.Errorf("%q was let in", h.Name)
			}
		}
	})
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2026-03-25", "2026-03-25T00:00:00Z", "2026-03-25T00:00:00.123 01:00", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, whole, ok := parseDate(s); ok && whole && at.Truncate(24*time.Hour) != at {
			t.Errorf("%q is the date %v", s, at)
		}
	})
}
