package dialect_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
)

// marked is a dialect whose requests carry a header of its name and one that
// names the caller. It asks what the general part is asked: once, and standing.
type marked string

func (m marked) Name() string { return string(m) }

func (m marked) Speaks(r *dialect.Request) bool { return r.Any("X-" + string(m)) }

func (m marked) Check(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need) (dialect.Identity, *dialect.Refusal) {
	hotkey, _ := r.Get("X-" + string(m))
	if hotkey == "" {
		return dialect.Identity{}, dialect.Plain(401, string(m)+" wants its header", nil)
	}
	if nonce, ok := r.Get("X-Nonce"); ok {
		fresh, err := v.Once(ctx, m.Name(), hotkey, nonce, dialecttest.Now.Add(time.Minute))
		if err != nil {
			return dialect.Identity{}, dialect.PlainBroken(err)
		}
		if !fresh {
			return dialect.Identity{}, dialect.Plain(401, "nonce was used before", nil)
		}
	}
	member, standing, err := v.Standing(ctx, hotkey, need)
	if refusal := dialect.PlainStanding(standing, err); refusal != nil {
		return dialect.Identity{}, refusal
	}
	return dialect.Identity{Hotkey: hotkey, Dialect: m.Name(), Member: member}, nil
}

func TestVerifierChooses(t *testing.T) {
	v := dialecttest.Verifier(t, marked("a"), marked("b"), dialect.Native{Self: dialecttest.Key(t, "//Alice").SS58()})
	for want, headers := range map[string][]string{
		"a":         {"X-A", ""},
		"b":         {"X-B", ""},
		"bittensor": {"bt_header_dendrite_hotkey", "h"},
	} {
		r := dialecttest.Request("POST", "/x", "", headers...)
		for _, d := range v.Dialects {
			if d.Speaks(r) != (d.Name() == want) {
				t.Errorf("%s: %s speaks: %t", want, d.Name(), d.Speaks(r))
			}
		}
		_, refusal := v.Verify(context.Background(), r, dialect.Need{})
		if refusal == nil || want != "bittensor" && refusal.Code != want+" wants its header" {
			t.Errorf("%s: %v", want, refusal)
		}
	}
	// A request that says nothing is refused in the first dialect's words.
	_, refusal := v.Verify(context.Background(), dialecttest.Request("GET", "/x", ""), dialect.Need{})
	if refusal == nil || refusal.Code != "a wants its header" {
		t.Errorf("unsigned: %v", refusal)
	}
	if _, refusal := (&dialect.Verifier{}).Verify(context.Background(), dialecttest.Request("GET", "/x", ""), dialect.Need{}); refusal == nil || refusal.Status != 500 {
		t.Errorf("no dialect: %v", refusal)
	}
}

// Marks of two dialects do not give two chances: the one that is chosen decides.
func TestOneChance(t *testing.T) {
	v := dialecttest.Verifier(t, dialect.Native{}, marked("b"))
	r := dialecttest.Request("POST", "/x", "", "X-B", dialecttest.Key(t, "//Alice").SS58())
	if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{})); got != "ok" {
		t.Fatal(got)
	}
	r.Header.Set("bt_header_dendrite_uuid", "u")
	if id, refusal := v.Verify(context.Background(), r, dialect.Need{}); refusal == nil {
		t.Errorf("accepted as %+v", id)
	}
}

func TestStanding(t *testing.T) {
	v := dialecttest.Verifier(t, marked("a"))
	use := func(uri string, need dialect.Need) string {
		return dialecttest.Outcome(v.Verify(context.Background(), dialecttest.Request("POST", "/x", "", "X-A", dialecttest.Key(t, uri).SS58()), need))
	}
	no := func(detail string) string { return `Forbidden {"detail":"` + detail + `"}` }
	for name, c := range map[string]struct {
		uri  string
		need dialect.Need
		want string
	}{
		"validator":     {"//Alice", dialect.Need{Validator: true, MinStake: 1000}, "ok"},
		"owner":         {"//Alice", dialect.Need{Coldkey: "owner"}, "ok"},
		"anybody":       {"//Nobody", dialect.Need{}, "ok"},
		"no validator":  {"//Bob", dialect.Need{Validator: true}, no("Hotkey is not a validator")},
		"no stake":      {"//Alice", dialect.Need{Validator: true, MinStake: 1001}, no("Hotkey is not a validator")},
		"not owner":     {"//Bob", dialect.Need{Coldkey: "owner"}, no("Hotkey belongs to another coldkey")},
		"not there":     {"//Nobody", dialect.Need{Registered: true}, no("Hotkey is not registered")},
		"banned":        {"//Eve", dialect.Need{Registered: true}, no("Hotkey is banned")},
		"banned anyway": {"//Eve", dialect.Need{}, no("Hotkey is banned")},
	} {
		if got := use(c.uri, c.need); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	v.Members = dialect.NewMetagraph(dialecttest.Clock, nil)
	if got := use("//Alice", dialect.Need{Registered: true}); got != `Service Unavailable {"detail":"Metagraph is too old"}` {
		t.Errorf("stale metagraph: %s", got)
	}
	v.Members = nil
	if got := use("//Alice", dialect.Need{Registered: true}); got != no("Hotkey is not registered") {
		t.Errorf("no registry: %s", got)
	}
}

func TestOnce(t *testing.T) {
	r := dialecttest.Request("POST", "/x", "", "X-A", "h", "X-Nonce", strings.Repeat("n", 101))
	dialecttest.TakesOnce(t, marked("a"), false, r)
	// What breaks is ours, and the client does not read why.
	v := dialecttest.Verifier(t, marked("a"))
	v.Replay = dialecttest.BrokenGuard{}
	if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{})); got != `Internal Server Error {"detail":"Internal Server Error"}` {
		t.Error(got)
	}
}

func TestRefusalWrites(t *testing.T) {
	w := httptest.NewRecorder()
	if err := dialect.Plain(401, "a <b> & c", nil).Write(w); err != nil {
		t.Fatal(err)
	}
	var body map[string]string
	if w.Code != 401 || w.Header().Get("Content-Type") != "application/json" || json.Unmarshal(w.Body.Bytes(), &body) != nil || body["detail"] != "a <b> & c" ||
		strings.Contains(w.Body.String(), `\u003c`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
