package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/coding/ridges"
	"github.com/agon-arena/agon/kinds/coding/signin"
	"github.com/agon-arena/agon/ledger"
)

// A miner's way: look up, check, upload with a credit, upload again.
func TestUploadWithCredit(t *testing.T) {
	w := newWorld(t)
	code, _, _ := w.get("/retrieval/agent-by-hotkey?miner_hotkey=" + w.keys['a'].SS58())
	if code != 404 {
		t.Fatalf("an unknown miner: %d", code)
	}
	one := agentSource("one")
	id := w.credit('a', "first")
	if w.credit('a', "first") != id {
		t.Error("a grant that is repeated gives another credit")
	}
	code, out, text := w.upload("/upload/agent/check", w.fields('a', one, part{"use_credit", "true"}), one)
	if w.want(200, code, out, text); out["payment_method"] != "credit" || out["credit_id"] != id || out["amount_alpha_rao"] != 0.0 || out["quote_id"] != nil {
		t.Fatal(text)
	}
	code, out, text = w.upload("/upload/agent", w.fields('a', one, part{"credit_id", id}), one)
	w.want(200, code, out, text)
	// The answer was lost: the same again makes no second agent.
	code, out, text = w.upload("/upload/agent", w.fields('a', one, part{"credit_id", id}), one)
	if w.want(200, code, out, text); !strings.Contains(text, "No new agent was created") {
		t.Error(text)
	}
	two := agentSource("two")
	if code, _, text = w.upload("/upload/agent", w.fields('a', two, part{"credit_id", id}), two); code != 409 {
		t.Errorf("a spent credit: %d %s", code, text)
	}
	if code, _, text = w.upload("/upload/agent/check", w.fields('a', two, part{"use_credit", "true"}), two); code != 402 {
		t.Errorf("no credit is left: %d %s", code, text)
	}
	agent := ridges.AgentID("credit:" + id + ":0")
	code, out, text = w.get("/retrieval/agent-by-hotkey?miner_hotkey=" + w.keys['a'].SS58())
	if w.want(200, code, out, text); out["agent_id"] != agent || out["id"] != agent || out["version_num"] != 0.0 || out["status"] != "screening_1" || out["name"] != "agent of a" {
		t.Error(text)
	}
	// A second one is version 1 under the first name; a credit needs no wait.
	next := w.credit('a', "second")
	f := w.fields('a', two, part{"credit_id", next})
	f[3].value = "another name"
	code, out, text = w.upload("/upload/agent", f, two)
	w.want(200, code, out, text)
	_, out, _ = w.get("/retrieval/agent-by-hotkey?miner_hotkey=" + w.keys['a'].SS58())
	if out["version_num"] != 1.0 || out["name"] != "agent of a" {
		t.Errorf("%v", out)
	}
	if _, _, text = w.get("/retrieval/queue?stage=screener_1"); strings.Count(text, `"agent_id"`) != 2 {
		t.Errorf("queue: %s", text)
	}
	if code, _, _ = w.get("/retrieval/queue?stage=other"); code != 422 {
		t.Errorf("a stage that is none: %d", code)
	}
}

// Every refusal of an upload, in the order of their checks.
func TestUploadRefusals(t *testing.T) {
	w := newWorld(t)
	src := agentSource("x")
	set := func(f []part, name, value string) []part {
		f = slices.Clone(f)
		i := slices.IndexFunc(f, func(x part) bool { return x.name == name })
		if i < 0 {
			return append(f, part{name, value})
		}
		f[i].value = value
		return f
	}
	good := w.fields('a', src, part{"credit_id", w.credit('a', "r")})
	other := w.credit('b', "b")
	big := append(bytes.Clone(src), bytes.Repeat([]byte("#"), maxAgent-len(src)+1)...)
	for _, c := range []struct {
		name   string
		fields []part
		file   string
		src    []byte
		status int
		text   string
	}{
		{"no hotkey", set(good, "file_info", ":x:0"), "agent.py", src, 400, "miner_hotkey"},
		{"foreign key", set(good, "public_key", w.keys['b'].PublicHex()), "agent.py", src, 400, "Public key"},
		{"foreign signer", set(good, "signature", w.sign('b', good[1].value)), "agent.py", src, 400, "Invalid signature"},
		{"changed byte", good, "agent.py", agentSource("y"), 400, "not the one that was signed"},
		{"not registered", w.fields('z', src, part{"credit_id", other}), "agent.py", src, 400, "not registered"},
		{"suffix", good, "agent.txt", src, 400, "python file"},
		{"too large", w.fields('a', big, part{"credit_id", other}), "agent.py", big, 400, "2MB"},
		{"not text", w.fields('a', []byte("\xff\xfe"), part{"credit_id", other}), "agent.py", []byte("\xff\xfe"), 400, "UTF-8"},
		{"burn fields with a credit", set(good, "quote_id", other), "agent.py", src, 400, "cannot include burn"},
		{"a word for a credit", set(good, "credit_id", "mine"), "agent.py", src, 400, "Invalid upload credit"},
		{"another's credit", set(good, "credit_id", other), "agent.py", src, 402, "not available"},
		{"no payment", w.fields('a', src), "agent.py", src, 400, "outdated"},
		{"no receipt", w.fields('a', src, part{"quote_id", other}), "agent.py", src, 400, "Burn payment"},
		{"unknown quote", w.fields('a', src, part{"quote_id", other}, part{"payment_block_hash", "0x"}, part{"payment_extrinsic_index", "1"}), "agent.py", src, 400, "quote"},
		{"owner with a credit", w.fields('o', src, part{"credit_id", other}), "agent.py", src, 400, "owner"},
		{"no agent_main", w.fields('a', []byte("x = 1\n"), part{"credit_id", good[6].value}), "agent.py", []byte("x = 1\n"), 400, "agent_main"},
	} {
		ctype, body := multi(t, c.fields, c.file, c.src)
		code, _, text := w.send(http.MethodPost, "/upload/agent", "", ctype, body)
		if code != c.status || !strings.Contains(text, c.text) || !strings.HasPrefix(text, `{"detail":"`) {
			t.Errorf("%s: %d %s", c.name, code, text)
		}
	}
	for i, f := range good[:6] {
		if code, _, text := w.upload("/upload/agent", slices.Delete(slices.Clone(good), i, i+1), src); code != 422 || !strings.Contains(text, f.name) {
			t.Errorf("without %s: %d %s", f.name, code, text)
		}
	}
	for _, c := range []struct{ ctype, body string }{{"application/json", "{}"}, {"multipart/form-data", ""}, {"multipart/form-data; boundary=b", "--b\r\n\r\n"}, {"multipart/form-data; boundary=b", ""}} {
		if code, _, text := w.send(http.MethodPost, "/upload/agent", "", c.ctype, []byte(c.body)); code != 422 && code != 400 {
			t.Errorf("%v: %d %s", c, code, text)
		}
	}
	// Nothing was spent on any of it.
	code, out, text := w.upload("/upload/agent", good, src)
	w.want(200, code, out, text)
	if code, _, text = w.upload("/upload/agent", w.fields('a', src, part{"credit_id", w.credit('a', "again")}), src); code != 409 || !strings.Contains(text, "nothing was spent") {
		t.Errorf("the same file for another credit: %d %s", code, text)
	}
	if code, _, text = w.upload("/upload/agent", w.fields('b', src, part{"credit_id", other}), src); code != 409 {
		t.Errorf("another's file: %d %s", code, text)
	}
	// A ban between check and upload.
	next := agentSource("b")
	code, out, text = w.send(http.MethodPut, "/admin/banned-coldkeys/"+w.cold['b'], adminKey, "application/json", []byte(`{"reason":"copies"}`))
	if w.want(200, code, out, text); out["banned_reason"] != "copies" {
		t.Error(text)
	}
	if code, _, text = w.upload("/upload/agent", w.fields('b', next, part{"credit_id", other}), next); code != 403 || !strings.Contains(text, "banned") {
		t.Errorf("a banned coldkey: %d %s", code, text)
	}
	if code, _, _ = w.send(http.MethodDelete, "/admin/banned-coldkeys/"+w.cold['b'], adminKey, "", nil); code != 204 {
		t.Errorf("unban: %d", code)
	}
	code, out, text = w.upload("/upload/agent", w.fields('b', next, part{"credit_id", other}), next)
	w.want(200, code, out, text)
	w.cfg.Frozen = "we move"
	w.open()
	if code, out, text = w.upload("/upload/agent", good, src); code != 503 || out["detail"] != "we move" {
		t.Errorf("frozen: %d %s", code, text)
	}
	mine := agentSource("owner")
	code, out, text = w.upload("/upload/agent", w.fields('o', mine, part{"payment_block_hash", "abc"}, part{"payment_extrinsic_index", "0"}), mine)
	w.want(200, code, out, text)
	if code, _, text = w.get("/retrieval/agent-by-id?agent_id=" + ridges.AgentID("abc:0")); code != 200 {
		t.Errorf("the owner's agent: %d %s", code, text)
	}
}

// What is burned pays once, for what was quoted, within its hour.
func TestBurns(t *testing.T) {
	c := &chain{have: 999, burns: map[string]*ledger.Burn{}}
	w := newWorld(t, func(cfg *Config, _ *agon.Arena) { cfg.Chain = c })
	src := agentSource("burn")
	if code, _, text := w.upload("/upload/agent/check", w.fields('a', src), src); code != 402 || !strings.Contains(text, "Insufficient alpha") {
		t.Errorf("%d %s", code, text)
	}
	c.err = errors.New("no node")
	if code, _, _ := w.upload("/upload/agent/check", w.fields('a', src), src); code != 503 {
		t.Errorf("no node: %d", code)
	}
	c.have, c.err = 1000, nil
	quote := func(k byte) string {
		code, out, text := w.upload("/upload/agent/check", w.fields(k, src), src)
		if w.want(200, code, out, text); out["payment_method"] != "burn" || out["amount_alpha_rao"] != 1000.0 || out["payment_netuid"] != 62.0 {
			t.Fatal(text)
		}
		return out["quote_id"].(string)
	}
	q := quote('a')
	good := ledger.Burn{At: w.clock(), Call: burnCalls[0], Signer: w.cold['a'], Owner: w.cold['a'], Coldkey: w.cold['a'], Hotkey: w.keys['a'].SS58(), Netuid: 62, Amount: 1000}
	n := 0
	try := func(k byte, quote, block string, b *ledger.Burn) (int, string) {
		if block == "" {
			n++
			block = fmt.Sprintf("0xb%d", n)
		}
		if b != nil {
			c.burns[block+":3"] = b
		}
		code, _, text := w.upload("/upload/agent", w.fields(k, src, part{"quote_id", quote}, part{"payment_block_hash", block}, part{"payment_extrinsic_index", "3"}), src)
		return code, text
	}
	change := func(f func(*ledger.Burn)) *ledger.Burn { b := good; f(&b); return &b }
	for name, x := range map[string]struct {
		b    *ledger.Burn
		text string
	}{
		"block":   {nil, "block not found"},
		"nothing": {&ledger.Burn{}, "could not be decoded"},
		"owner":   {change(func(b *ledger.Burn) { b.Owner = "" }), "owner not found"},
		"failed":  {change(func(b *ledger.Burn) { b.Failed = true }), "failed on-chain"},
		"call":    {change(func(b *ledger.Burn) { b.Call = "Balances.transfer" }), "not a recognized"},
		"signer":  {change(func(b *ledger.Burn) { b.Signer = w.cold['b'] }), "not signed by"},
		"event":   {change(func(b *ledger.Burn) { b.Coldkey = "" }), "event not found"},
		"netuid":  {change(func(b *ledger.Burn) { b.Netuid = 1 }), "event not found"},
		"coldkey": {change(func(b *ledger.Burn) { b.Coldkey = w.cold['b'] }), "Coldkey does not match"},
		"hotkey":  {change(func(b *ledger.Burn) { b.Hotkey = w.keys['b'].SS58() }), "Hotkey does not match"},
		"amount":  {change(func(b *ledger.Burn) { b.Amount = 999 }), "too low"},
		"early":   {change(func(b *ledger.Burn) { b.At = b.At.Add(-time.Hour) }), "validity window"},
		"late":    {change(func(b *ledger.Burn) { b.At = b.At.Add(2 * time.Hour) }), "validity window"},
	} {
		if code, text := try('a', q, "", x.b); code != 402 || !strings.Contains(text, x.text) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if code, text := try('b', q, "", &good); code != 402 || !strings.Contains(text, "another hotkey") {
		t.Errorf("another's quote: %d %s", code, text)
	}
	// Cut off between the burn and the upload: resuming it succeeds once.
	w.open()
	if code, text := try('a', q, "0xgood", &good); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if code, text := try('a', q, "0xgood", nil); code != 402 || !strings.Contains(text, "already used") {
		t.Errorf("the receipt again: %d %s", code, text)
	}
	if got := w.status(ridges.AgentID("0xgood:3")); got != "screening_1" {
		t.Error(got)
	}
	// A second upload within a day needs a credit.
	src = agentSource("second")
	if code, _, _ := w.upload("/upload/agent/check", w.fields('a', src), src); code != 429 {
		t.Errorf("a second upload on one day: %d", code)
	}
	w.skip(24 * time.Hour)
	good.At = w.clock()
	if code, text := try('a', quote('a'), "0xgood", nil); code != 402 {
		t.Errorf("the receipt for another quote: %d %s", code, text)
	}
	q = quote('a')
	good.At = w.clock()
	again := good
	if code, text := try('a', q, "0xnext", &again); code != 200 {
		t.Errorf("the next day: %d %s", code, text)
	}
}

// Tickets are checked as data and redeemed once.
func TestTickets(t *testing.T) {
	w := newWorld(t)
	id := w.credit('a', "ticket")
	key := w.keys['a']
	prep := map[string]any{"hotkey": key.SS58(), "public_key": key.PublicHex(), "signature": w.sign('a', string(signin.PrepareMessage(key.SS58()))), "use_credit": true}
	code, out, text := w.post("/upload/prepare", "", prep)
	if w.want(200, code, out, text); out["credit_id"] != id {
		t.Fatal(text)
	}
	prep["signature"] = w.sign('b', "x")
	if code, _, _ = w.post("/upload/prepare", "", prep); code != 400 {
		t.Errorf("a wrong signature: %d", code)
	}
	tk := &ridges.Ticket{Funding: ridges.Credit, Hotkey: key.SS58(), PublicKey: key.PublicHex(), CreditID: id}
	tk.Signature = w.sign('a', tk.Text())
	look := func(text string) (bool, any) {
		code, out, raw := w.post("/upload/ticket/check", "", map[string]any{"ticket": text})
		w.want(200, code, out, raw)
		return out["valid"].(bool), out["reason"]
	}
	if ok, why := look(tk.Encode()); !ok || why != nil {
		t.Errorf("%v %v", ok, why)
	}
	src := agentSource("ticket")
	f := []part{{"ticket", "x" + tk.Encode()}, {"name", "n"}, {"openrouter_api_key", "k"}, {"openrouter_management_key", "m"}}
	if code, out, _ = w.upload("/upload/agent/ticket", f, src); code != 400 || out["detail"] != "malformed_ticket" {
		t.Errorf("%d %v", code, out)
	}
	f[0].value = tk.Encode()
	code, out, text = w.upload("/upload/agent/ticket", f, src)
	w.want(200, code, out, text)
	if ok, why := look(tk.Encode()); ok || why != "already_redeemed" {
		t.Errorf("%v %v", ok, why)
	}
	forged := *tk
	forged.Signature = w.sign('b', tk.Text())
	unknown := ridges.Ticket{Funding: ridges.Credit, Hotkey: key.SS58(), PublicKey: key.PublicHex(), CreditID: "11111111-2222-4333-8444-555555555555"}
	unknown.Signature = w.sign('a', unknown.Text())
	i := int64(1)
	burn := ridges.Ticket{Funding: ridges.Burn, Hotkey: key.SS58(), PublicKey: key.PublicHex(), QuoteID: unknown.CreditID, BlockHash: "0xa", Index: &i}
	burn.Signature = w.sign('a', burn.Text())
	own := ridges.Ticket{Funding: ridges.Credit, Hotkey: w.keys['o'].SS58(), PublicKey: w.keys['o'].PublicHex(), CreditID: id}
	own.Signature = w.sign('o', own.Text())
	for want, text := range map[string]string{"malformed_ticket": "e30=", "invalid_signature": forged.Encode(), "unknown_credit": unknown.Encode(), "unknown_quote": burn.Encode(), "owner_not_allowed": own.Encode()} {
		if ok, why := look(text); ok || why != want {
			t.Errorf("%s: %v %v", want, ok, why)
		}
	}
}

// countedBody is a body of so many bytes that counts what is read of it.
type countedBody struct {
	head string
	left int64
	read atomic.Int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	n := copy(p, c.head)
	c.head = c.head[n:]
	for ; n < len(p) && c.left > 0; n++ {
		p[n] = 'x'
		c.left--
	}
	c.read.Add(int64(n))
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Of a body of a gigabyte no more is read than an upload may have, in whichever part it stands.
func TestUploadOfAGigabyte(t *testing.T) {
	w := newWorld(t)
	for name, head := range map[string]string{
		"the file":         "--b\r\nContent-Disposition: form-data; name=\"agent_file\"; filename=\"agent.py\"\r\n\r\n",
		"a field":          "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n",
		"a part's head":    "--b\r\nContent-Disposition: form-data; name=\"",
		"before any part":  "",
		"an unknown field": "--b\r\nContent-Disposition: form-data; name=\"more\"\r\n\r\n",
	} {
		for _, path := range []string{"/upload/agent", "/upload/agent/check", "/upload/agent/ticket"} {
			body := &countedBody{head: head, left: 1 << 30}
			r := httptest.NewRequest(http.MethodPost, path, body)
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
			rec := httptest.NewRecorder()
			w.h.ServeHTTP(rec, r)
			if rec.Code < 400 || rec.Code >= 500 {
				t.Errorf("%s of %s: %d %s", name, path, rec.Code, rec.Body)
			}
			if n := body.read.Load(); n > 4<<20 {
				t.Errorf("%s of %s: %d bytes were read", name, path, n)
			}
		}
	}
}
