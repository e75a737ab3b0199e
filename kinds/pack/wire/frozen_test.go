package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// The packs of a window are frozen when they are first asked for: the same bytes for
// each validator and over a restart, without what came later; and only for validators.
func TestEpochSnapshot(t *testing.T) {
	w := led(t)
	const epoch = 3
	const cut = epoch*packfile.WindowBlocks - frozenBefore
	w.net.g.Block = cut - 10
	w.enter('a', words("Read the calendar first, then the mail, and answer in five lines."))
	w.skip(time.Second)
	_, second := w.enter('b', words("Begin with what is overdue. Offer drafts, send nothing, and name the source of each fact."))
	ask := func(k byte, n string) (int, []byte) {
		t.Helper()
		w.skip(2 * time.Second)
		at := fmt.Sprint(w.now().Unix())
		sig, err := w.keys[k].Sign(signin.Message("trajectoryrl-snapshot", w.ss58(k), at))
		must(t, err)
		return w.do("GET", "/api/v2/validators/epoch_snapshot?"+url.Values{"epoch_number": {n}, "validator_hotkey": {w.ss58(k)}, "timestamp": {at}, "signature": {"0x" + hex.EncodeToString(sig)}}.Encode(), "", nil)
	}
	if status, b := ask('v', "3"); status != 404 || !strings.Contains(string(b), "Snapshot for epoch 3 is not available yet") {
		t.Fatalf("%d %s", status, b)
	}
	w.blocks(40)
	w.enter('c', words("Whoever waits longest comes first. Ask before anything is moved or deleted.")) // after the cut
	status, first := ask('v', "3")
	if status != 200 {
		t.Fatalf("%d %s", status, first)
	}
	w.blocks(100)
	w.enter('d', words("List the meetings, then the people in them, then what each still owes."))
	w.open()
	if status, again := ask('w', "3"); status != 200 || !bytes.Equal(first, again) {
		t.Errorf("%d, the second read differs:\n%s\n%s", status, first, again)
	}
	if status, posted := w.post('w', "/api/v2/validators/epoch_snapshot", "trajectoryrl-snapshot", map[string]any{"epoch_number": 3}); status != 200 || len(posted["entries"].([]any)) != 2 {
		t.Errorf("%d %v", status, posted)
	}
	var got map[string]any
	must(t, json.Unmarshal(first, &got))
	list := rows(t, got, "entries")
	if len(list) != 2 || list[0]["hotkey"] != w.ss58('a') || list[1]["pack_hash"] != second || list[0]["pre_eval_status"] != "passed" || got["cutoff_block"] != float64(cut) || got["window_start"] != float64(epoch*packfile.WindowBlocks) {
		t.Errorf("%s", first)
	}
	path := strings.TrimPrefix(list[1]["pack_url"].(string), "http://arena.example:8900")
	if status, b := w.do("GET", path, "", nil); status != 200 || !strings.Contains(string(b), "Begin with what is overdue") {
		t.Errorf("%s: %d %s", path, status, b)
	}
	if status, _ := w.do("GET", path[:len(path)-9]+"0000.json", "", nil); status != 404 {
		t.Errorf("a guessed name: %d", status)
	}
	for name, c := range map[string]struct {
		k      byte
		n      string
		status int
		want   string
	}{
		"no number": {'v', "", 400, "epoch_number is required"}, "a word": {'v', "three", 400, "non-negative"}, "below 0": {'v', "-1", 400, "non-negative"}, "far": {'v', "999999999999999", 400, "non-negative"},
		"a miner": {'a', "3", 403, "not a registered validator"},
	} {
		if status, b := ask(c.k, c.n); status != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: %d %s", name, status, b)
		}
	}
	if status, b := w.do("GET", "/api/v2/validators/epoch_snapshot?epoch_number=3", "", nil); status != 401 || !strings.Contains(string(b), "validator_hotkey, timestamp, and signature are required") {
		t.Errorf("unsigned: %d %s", status, b)
	}
}
