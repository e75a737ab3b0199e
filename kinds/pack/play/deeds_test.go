package play

import (
	"encoding/json"
	"io/fs"
	"slices"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// The same acts are the same deeds, however the agent words what it writes; another act,
// another order and another outcome are other deeds.
func TestDeeds(t *testing.T) {
	k := New(Config{})
	of := func(calls ...mock.Call) []string {
		t.Helper()
		var b []byte
		for _, c := range calls {
			line, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			b = append(append(b, line...), '\n')
		}
		got, err := k.Deeds(func(name string) ([]byte, error) {
			if name != FileCalls {
				return nil, fs.ErrNotExist
			}
			return b, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ok := packfile.Obj("ok", true)
	exec := func(command string) mock.Call {
		return mock.Call{TS: "2026-11-29T10:00:00Z", Tool: "exec", Args: packfile.Obj("command", command), Response: packfile.Obj("status", "completed")}
	}
	chat := func(to, content string) mock.Call {
		return mock.Call{TS: "2026-11-29T10:00:01Z", Tool: "slack", Args: packfile.Obj("action", "sendMessage", "to", to, "content", content), Response: ok}
	}
	first := of(exec("himalaya envelope list"), exec("himalaya message read msg_101"), chat("#ops", "The fix is out since this morning, all is well."))
	for what, other := range map[string][]string{
		"other words, blanks, case": of(exec("himalaya  envelope list"), exec("Himalaya message read msg_101"), chat("#ops", "We shipped a fix today and nothing is broken any more.")),
		"a draft, in other words":   of(exec("himalaya envelope list"), exec("himalaya message read msg_101"), chat("#ops", "Dear all, here is what we know of the incident so far")),
	} {
		if !slices.Equal(first, other) {
			t.Errorf("%s: %v, want %v", what, other, first)
		}
	}
	if a, b := of(exec("echo 'a text of more than three words' | himalaya message send")), of(exec(`echo "this says the same thing otherwise" | himalaya message send`)); a[0] != b[0] {
		t.Error("a mail in other words is another deed")
	}
	if a, b := of(exec("cat <<EOF | himalaya message send\nHello\nEOF")), of(exec("cat <<EOF | himalaya message send\nGood day\nEOF")); a[0] != b[0] {
		t.Error("a mail from a heredoc in other words is another deed")
	}
	failed := exec("himalaya envelope list")
	failed.Response = packfile.Obj("status", "failed")
	for what, other := range map[string][]string{
		"another mail":    of(exec("himalaya envelope list"), exec("himalaya message read msg_102"), chat("#ops", "x")),
		"another channel": of(exec("himalaya envelope list"), exec("himalaya message read msg_101"), chat("#all", "The fix is out since this morning, all is well.")),
		"another order":   of(exec("himalaya message read msg_101"), exec("himalaya envelope list"), chat("#ops", "The fix is out since this morning, all is well.")),
		"another outcome": of(failed, exec("himalaya message read msg_101"), chat("#ops", "The fix is out since this morning, all is well.")),
	} {
		if slices.Equal(first, other) {
			t.Errorf("%s: the same deeds", what)
		}
	}
	if got, err := k.Deeds(func(string) ([]byte, error) { return nil, fs.ErrNotExist }); got != nil || err != nil {
		t.Errorf("without calls: %v, %v", got, err)
	}
	if _, err := k.Deeds(func(string) ([]byte, error) { return []byte("{"), nil }); err == nil {
		t.Error("what is no call is read")
	}
}
