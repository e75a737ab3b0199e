package dialect

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
)

const someUUID = "6f1d1c5e-1111-4222-8333-444444444444"

func millis(d time.Duration) string { return strconv.FormatInt(testNow.Add(d).UnixMilli(), 10) }

func epistulaRequest(t testing.TB, k *auth.Key, timestamp, id, signedFor string, changes ...string) *Request {
	r := request("POST", "/x", "body", epistulaVersion, "2", epistulaTimestamp, timestamp, epistulaUUID, id, epistulaSignedBy, k.SS58(),
		epistulaSignature, "0x"+sign(t, k, signing.Epistula([]byte("body"), id, timestamp, signedFor)))
	if signedFor != "" {
		r.Header.Set(epistulaSignedFor, signedFor)
	}
	for i := 0; i < len(changes); i += 2 {
		r.Header.Set(changes[i], changes[i+1])
	}
	return r
}

func TestEpistula(t *testing.T) {
	alice, bob := key(t, "//Alice"), key(t, "//Bob")
	for name, c := range map[string]struct {
		r      *Request
		strict bool
		need   Need
		want   string
	}{
		"good":            {r: epistulaRequest(t, alice, millis(0), someUUID, ""), want: "ok"},
		"for us":          {r: epistulaRequest(t, alice, millis(0), someUUID, bob.SS58()), strict: true, want: "ok"},
		"for nobody":      {r: epistulaRequest(t, alice, millis(0), someUUID, ""), strict: true, want: `Bad Request {"detail":"Request is signed for another receiver"}`},
		"for another":     {r: epistulaRequest(t, alice, millis(0), someUUID, alice.SS58()), want: `Bad Request {"detail":"Request is signed for another receiver"}`},
		"8 s":             {r: epistulaRequest(t, alice, millis(-8*time.Second), someUUID, ""), want: "ok"},
		"8001 ms":         {r: epistulaRequest(t, alice, millis(-8001*time.Millisecond), someUUID, ""), want: `Bad Request {"detail":"Request is too stale"}`},
		"8001 ms ahead":   {r: epistulaRequest(t, alice, millis(8001*time.Millisecond), someUUID, ""), want: `Bad Request {"detail":"Request is from the future"}`},
		"version":         {r: epistulaRequest(t, alice, millis(0), someUUID, "", epistulaVersion, "1"), want: `Bad Request {"detail":"Unknown Epistula version"}`},
		"no signature":    {r: request("POST", "/x", "", epistulaVersion, "2"), want: `Bad Request {"detail":"Invalid Signature"}`},
		"short signature": {r: epistulaRequest(t, alice, millis(0), someUUID, "", epistulaSignature, "0x00"), want: `Bad Request {"detail":"Invalid Signature"}`},
		"time":            {r: epistulaRequest(t, alice, "1.7e12", someUUID, ""), want: `Bad Request {"detail":"Invalid Timestamp"}`},
		"sender":          {r: epistulaRequest(t, alice, millis(0), someUUID, "", epistulaSignedBy, "x"), want: `Bad Request {"detail":"Invalid Sender key"}`},
		"uuid":            {r: epistulaRequest(t, alice, millis(0), "u", ""), want: `Bad Request {"detail":"Invalid uuid"}`},
		"mismatch":        {r: epistulaRequest(t, alice, millis(0), someUUID, "", epistulaSignedBy, bob.SS58()), want: `Bad Request {"detail":"Signature Mismatch"}`},
		"not there":       {r: epistulaRequest(t, key(t, "//Nobody"), millis(0), someUUID, ""), need: Need{Registered: true}, want: `Forbidden {"detail":"Hotkey is not registered"}`},
	} {
		v := verifier(t, Epistula{Self: bob.SS58()})
		v.Strict = c.strict
		if got := outcome(v.Verify(context.Background(), c.r, c.need)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// One uuid is one nonce, in whatever case it is written.
	v := verifier(t, Epistula{Self: bob.SS58()})
	for i, want := range []string{"ok", `Bad Request {"detail":"Request was used before"}`} {
		id := []string{someUUID, strings.ToUpper(someUUID)}[i]
		if got := outcome(v.Verify(context.Background(), epistulaRequest(t, alice, millis(0), id, ""), Need{})); got != want {
			t.Errorf("use %d: %s", i+1, got)
		}
	}
	v.Members = NewMetagraph(clock, nil)
	if _, refusal := v.Verify(context.Background(), epistulaRequest(t, alice, millis(0), "6f1d1c5e-1111-4222-8333-444444444445", ""), Need{Registered: true}); refusal == nil || refusal.Status != 503 {
		t.Errorf("stale metagraph: %v", refusal)
	}
}

func nanos(d time.Duration) string { return strconv.FormatInt(testNow.Add(d).UnixNano(), 10) }

func nativeRequest(t testing.TB, k *auth.Key, nonce, receiver, hash string, changes ...string) *Request {
	r := request("POST", "/Dummy", `{"name":"it's","n":[1,true],"other":0}`, nativeHotkey, k.SS58(), nativeNonce, nonce, nativeUUID, someUUID,
		nativeSignature, "0x"+sign(t, k, signing.Native(nonce, k.SS58(), receiver, someUUID, hash)))
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			r.Header.Del(changes[i])
		} else {
			r.Header.Set(changes[i], changes[i+1])
		}
	}
	return r
}

func TestNative(t *testing.T) {
	alice, self := key(t, "//Alice"), key(t, "//Bob").SS58()
	none := signing.NativeBodyHash()
	fields := func(synapse string) []string {
		return map[string][]string{"Dummy": {"name", "n"}}[synapse]
	}
	missing := func(string) []string { return []string{"absent"} }
	covered := signing.NativeBodyHash("it's", "[1, True]")
	no := func(why string) string { return `Unauthorized {"message":"Not Verified with error: ` + why + `"}` }
	for name, c := range map[string]struct {
		r      *Request
		fields func(string) []string
		strict bool
		want   string
	}{
		"good":             {r: nativeRequest(t, alice, nanos(0), self, none), want: "ok"},
		"good fields":      {r: nativeRequest(t, alice, nanos(0), self, covered), fields: fields, strict: true, want: "ok"},
		"fields left out":  {r: nativeRequest(t, alice, nanos(0), self, none), fields: fields, want: no("Signature mismatch")},
		"fields not there": {r: nativeRequest(t, alice, nanos(0), self, none), fields: missing, want: `Bad Request {"message":"Not Verified with error: Hash fields are missing from the body"}`},
		"strict":           {r: nativeRequest(t, alice, nanos(0), self, none), strict: true, want: no("Body is not covered by the signature")},
		"4 s":              {r: nativeRequest(t, alice, nanos(-4*time.Second), self, none), want: no("Nonce is too old, a newer one was last processed")},
		"15.9 s, 12 s":     {r: nativeRequest(t, alice, nanos(-15900*time.Millisecond), self, none, "timeout", "12.0"), want: "ok"},
		"65 s, endless":    {r: nativeRequest(t, alice, nanos(-65*time.Second), self, none, "timeout", "1e9"), want: no("Nonce is too old, a newer one was last processed")},
		"old, no version":  {r: nativeRequest(t, alice, nanos(-time.Hour), self, none, "bt_header_dendrite_version", "-"), want: no("Nonce is too old, a newer one was last processed")},
		"old, old version": {r: nativeRequest(t, alice, nanos(-time.Hour), self, none, "bt_header_dendrite_version", "6000000"), want: no("Nonce is too old, a newer one was last processed")},
		"future":           {r: nativeRequest(t, alice, nanos(5*time.Second), self, none), want: no("Nonce is from the future")},
		"NaN timeout":      {r: nativeRequest(t, alice, nanos(0), self, none, "timeout", "NaN"), want: "ok"},
		"no signature":     {r: nativeRequest(t, alice, nanos(0), self, none, nativeSignature, "-"), want: no("Signature mismatch")},
		"empty signature":  {r: nativeRequest(t, alice, nanos(0), self, none, nativeSignature, ""), want: no("Signature mismatch")},
		"other receiver":   {r: nativeRequest(t, alice, nanos(0), alice.SS58(), none, "bt_header_axon_hotkey", alice.SS58()), want: no("Signature mismatch")},
		"named body hash":  {r: nativeRequest(t, alice, nanos(0), self, "abc", "computed_body_hash", "abc"), want: no("Signature mismatch")},
		"no nonce":         {r: nativeRequest(t, alice, nanos(0), self, none, nativeNonce, "-"), want: no("Missing Nonce")},
		"signed nonce":     {r: nativeRequest(t, alice, "+"+nanos(0), self, none), want: no("Missing Nonce")},
		"no hotkey":        {r: nativeRequest(t, alice, nanos(0), self, none, nativeHotkey, "-"), want: no("Invalid dendrite hotkey")},
		"dotted uuid":      {r: nativeRequest(t, alice, nanos(0), self, none, nativeUUID, "a.b"), want: no("Invalid uuid")},
	} {
		v := verifier(t, Native{Self: self, Fields: c.fields})
		v.Strict = c.strict
		if got := outcome(v.Verify(context.Background(), c.r, Need{})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	v := verifier(t, Native{Self: self})
	for i, want := range []string{"ok", no("Nonce was used before")} {
		if got := outcome(v.Verify(context.Background(), nativeRequest(t, alice, nanos(0), self, none), Need{})); got != want {
			t.Errorf("use %d: %s", i+1, got)
		}
	}
	if _, refusal := v.Verify(context.Background(), nativeRequest(t, alice, nanos(1), self, none), Need{Coldkey: "other"}); refusal == nil || refusal.Status != 403 {
		t.Errorf("not owner: %v", refusal)
	}
	v.Members = NewMetagraph(clock, nil)
	if _, refusal := v.Verify(context.Background(), nativeRequest(t, alice, nanos(2), self, none), Need{Registered: true}); refusal == nil || refusal.Status != 503 {
		t.Errorf("stale metagraph: %v", refusal)
	}
}

func TestTrajectoryRL(t *testing.T) {
	alice, bob, nobody := key(t, "//Alice"), key(t, "//Bob"), key(t, "//Nobody")
	fields := func(k *auth.Key, p TrajectoryRL, timestamp string, more ...string) Fields {
		return Fields{k.SS58(), timestamp, "0x" + sign(t, k, signing.TrajectoryRL(p.Purpose, k.SS58(), timestamp, more...)), more}
	}
	with := func(f Fields, change func(*Fields)) Fields { change(&f); return f }
	body := func(text string) string { return `{"success":false,"error":"` + text + `"}` }
	for name, c := range map[string]struct {
		p    TrajectoryRL
		f    Fields
		want string
	}{
		"heartbeat":          {TrajRLHeartbeat, fields(alice, TrajRLHeartbeat, stamp(0)), "ok"},
		"no 0x":              {TrajRLHeartbeat, with(fields(alice, TrajRLHeartbeat, stamp(0)), func(f *Fields) { f.Signature = f.Signature[2:] }), "ok"},
		"300 s":              {TrajRLHeartbeat, fields(alice, TrajRLHeartbeat, stamp(-300*time.Second)), "ok"},
		"301 s":              {TrajRLHeartbeat, fields(alice, TrajRLHeartbeat, stamp(-301*time.Second)), "Unauthorized " + body("Timestamp outside the 300 s window")},
		"301 s ahead":        {TrajRLHeartbeat, fields(alice, TrajRLHeartbeat, stamp(301*time.Second)), "Unauthorized " + body("Timestamp outside the 300 s window")},
		"score":              {TrajRLChallengeScore, fields(alice, TrajRLChallengeScore, stamp(0), "7"), "ok"},
		"other epoch":        {TrajRLChallengeScore, with(fields(alice, TrajRLChallengeScore, stamp(0), "7"), func(f *Fields) { f.More = []string{"8"} }), "Unauthorized " + body("Invalid signature")},
		"other route":        {TrajRLSubmit, fields(alice, TrajRLHeartbeat, stamp(0)), "Unauthorized " + body("Invalid signature")},
		"progress":           {TrajRLScenarioProgress, fields(alice, TrajRLScenarioProgress, stamp(0), "7", "inbox"), "ok"},
		"glued fields":       {TrajRLScenarioProgress, fields(alice, TrajRLScenarioProgress, stamp(0), "7:inbox"), "Bad Request " + body("A signed field contains a colon")},
		"miner":              {TrajRLMinerSubmit, fields(bob, TrajRLMinerSubmit, stamp(0)), "ok"},
		"miner not there":    {TrajRLMinerSubmit, fields(nobody, TrajRLMinerSubmit, stamp(0)), "Forbidden " + body("miner_hotkey is not a registered miner on-chain")},
		"miner as validator": {TrajRLHeartbeat, fields(bob, TrajRLHeartbeat, stamp(0)), "Forbidden " + body("Hotkey is not a registered validator on-chain")},
		"logs signature":     {TrajRLLogs, with(fields(alice, TrajRLLogs, stamp(0)), func(f *Fields) { f.Signature = "zz" }), "Forbidden " + body("Invalid signature")},
		// The score route says who is no validator before it looks at the signature.
		"score, stranger":  {TrajRLChallengeScore, with(fields(nobody, TrajRLChallengeScore, stamp(0)), func(f *Fields) { f.Signature = "zz" }), "Forbidden " + body("Hotkey is not a registered validator on-chain")},
		"submit, stranger": {TrajRLMinerSubmit, with(fields(nobody, TrajRLMinerSubmit, stamp(0)), func(f *Fields) { f.Signature = "zz" }), "Forbidden " + body("Invalid signature")},
		"nothing":          {TrajRLSnapshot, Fields{}, "Unauthorized " + body("validator_hotkey, timestamp, and signature are required")},
		"float":            {TrajRLHeartbeat, fields(alice, TrajRLHeartbeat, "1.5"), "Unauthorized " + body("Invalid timestamp")},
		"banned":           {TrajRLHeartbeat, fields(key(t, "//Eve"), TrajRLHeartbeat, stamp(0)), "Forbidden " + body("Hotkey is banned")},
	} {
		if got := outcome(c.p.Check(context.Background(), verifier(t), c.f, Need{})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for strict, second := range map[bool]string{false: "ok", true: "Unauthorized " + body("Signature was used before")} {
		v := verifier(t)
		v.Strict = strict
		f := fields(alice, TrajRLHeartbeat, stamp(0))
		for i, want := range []string{"ok", second} {
			if got := outcome(TrajRLHeartbeat.Check(context.Background(), v, f, Need{})); got != want {
				t.Errorf("strict %t, use %d: %s", strict, i+1, got)
			}
		}
	}
}

func TestRidges(t *testing.T) {
	ctx := context.Background()
	alice, bob := key(t, "//Alice"), key(t, "//Bob")
	file := []byte("def agent_main(): pass")
	info := string(signing.RidgesFileInfo(alice.SS58(), signing.BodyHash(file), "3"))
	sig := sign(t, alice, []byte(info))
	text := func(r *Refusal) string {
		if r == nil {
			return "ok"
		}
		return fmt.Sprintf("%d %s", r.Status, r.Code)
	}
	for name, c := range map[string]struct{ public, info, sig, file, want string }{
		"good":           {alice.PublicHex(), info, sig, string(file), "ok"},
		"changed byte":   {alice.PublicHex(), info, sig, "def agent_main(): Pass", "400 File is not the one that was signed"},
		"foreign key":    {bob.PublicHex(), info, sign(t, bob, []byte(info)), string(file), "400 Public key does not belong to the hotkey"},
		"foreign signer": {alice.PublicHex(), info, sign(t, bob, []byte(info)), string(file), "400 Invalid signature"},
		"no info":        {alice.PublicHex(), "x", sig, string(file), "400 Invalid file_info"},
		"no number":      {alice.PublicHex(), info + "x", sig, string(file), "400 Invalid file_info"},
		"short hash":     {alice.PublicHex(), alice.SS58() + ":ab:1", sig, string(file), "400 Invalid file_info"},
	} {
		v := verifier(t)
		got, refusal := Ridges{}.CheckUpload(ctx, v, c.public, c.info, c.sig, []byte(c.file), true)
		if text(refusal) != c.want || refusal == nil && (got.Version != 3 || got.Hotkey != alice.SS58()) {
			t.Errorf("%s: %+v %s", name, got, text(refusal))
		}
	}
	v := verifier(t)
	v.Strict = true
	for i, want := range []string{"ok", "400 Signature was used before: sign again"} {
		if _, refusal := (Ridges{}).CheckUpload(ctx, v, alice.PublicHex(), info, sig, file, true); text(refusal) != want {
			t.Errorf("use %d: %s", i+1, text(refusal))
		}
	}
	if refusal := (Ridges{}).CheckPrepare(ctx, verifier(t), alice.SS58(), alice.PublicHex(), sign(t, alice, []byte("ridges-upload-prepare:v2:"+alice.SS58()))); refusal != nil {
		t.Error(refusal)
	}
	for name, c := range map[string]struct {
		at   time.Duration
		sig  string
		want string
	}{
		"60 s": {-60 * time.Second, "", "ok"}, "61 s": {-61 * time.Second, "", "400 Timestamp is not within 60 seconds of the server's clock"},
		"signature first": {-61 * time.Second, "00", "401 Invalid signature"},
	} {
		at := testNow.Add(c.at).Unix()
		if c.sig == "" {
			c.sig = sign(t, alice, []byte(strconv.FormatInt(at, 10)))
		}
		if got := text(Ridges{}.CheckRegistration(ctx, verifier(t), alice.SS58(), at, c.sig)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	hello := string(signing.RidgesHello(alice.SS58(), "c0ffee", stamp(0)))
	for message, want := range map[string]string{hello: "ok", hello + "1": "401 Invalid message"} {
		if got := text(Ridges{}.CheckHello(ctx, verifier(t), alice.SS58(), alice.PublicHex(), "c0ffee", stamp(0), message, sign(t, alice, []byte(message)))); got != want {
			t.Error(got)
		}
	}
}

func TestRidgesTicket(t *testing.T) {
	alice := key(t, "//Alice")
	quote, credit := someUUID, "00000000-0000-4000-8000-000000000001"
	burnSig := sign(t, alice, []byte("ridges-upload-ticket:v2:"+alice.SS58()+":burn:"+quote+":0xab:4"))
	creditSig := sign(t, alice, []byte("ridges-upload-ticket:v2:"+alice.SS58()+":credit:"+credit))
	burn := `{"funding":"burn","hotkey":"` + alice.SS58() + `","payment_block_hash":"0xab","payment_extrinsic_index":4,"public_key":"` + alice.PublicHex() +
		`","quote_id":"` + quote + `","signature":"` + burnSig + `","v":2}`
	ofCredit := `{"credit_id":"` + credit + `","funding":"credit","hotkey":"` + alice.SS58() + `","public_key":"` + alice.PublicHex() + `","signature":"` + creditSig + `","v":2}`
	for name, c := range map[string]struct{ json, want string }{
		"burn":           {burn, ""},
		"credit":         {ofCredit, ""},
		"null":           {strings.Replace(burn, `"v"`, `"credit_id":null,"v"`, 1), ""},
		"other funding":  {strings.Replace(burn, `"v"`, `"credit_id":"`+credit+`","v"`, 1), "malformed_ticket"},
		"v 2.0":          {strings.Replace(burn, `:2}`, `:2.0}`, 1), "malformed_ticket"},
		"v true":         {strings.Replace(burn, `:2}`, `:true}`, 1), "malformed_ticket"},
		"twice":          {strings.Replace(burn, `"v":2`, `"v":2,"v":2`, 1), "malformed_ticket"},
		"unknown":        {strings.Replace(burn, `"v":2`, `"v":2,"x":2`, 1), "malformed_ticket"},
		"unknown null":   {strings.Replace(burn, `"v":2`, `"v":2,"x":null`, 1), "malformed_ticket"},
		"bool index":     {strings.Replace(burn, `index":4`, `index":true`, 1), "malformed_ticket"},
		"negative index": {strings.Replace(burn, `index":4`, `index":-4`, 1), "malformed_ticket"},
		"no uuid":        {strings.Replace(burn, quote, "q", 1), "malformed_ticket"},
		"funding":        {strings.Replace(burn, `"burn"`, `"gift"`, 1), "malformed_ticket"},
		"nested":         {strings.Replace(burn, `"v":2`, `"v":[2]`, 1), "malformed_ticket"},
		"no object":      {"[]", "malformed_ticket"},
		"half":           {burn[:len(burn)-1], "malformed_ticket"},
		"more":           {burn + "{}", "malformed_ticket"},
		"other index":    {strings.Replace(burn, `index":4`, `index":5`, 1), "invalid_signature"},
		"other key":      {strings.Replace(burn, alice.PublicHex(), key(t, "//Bob").PublicHex(), 1), "invalid_signature"},
	} {
		ticket, refusal := Ridges{}.CheckTicket(context.Background(), verifier(t), " "+base64.StdEncoding.EncodeToString([]byte(c.json))+"\n")
		if c.want == "" && (refusal != nil || ticket.Hotkey != alice.SS58()) || c.want != "" && (refusal == nil || refusal.Code != c.want) {
			t.Errorf("%s: %+v %v", name, ticket, refusal)
		}
	}
	for _, blob := range []string{"", "ridges1" + burn, "!!", strings.Repeat("A", maxTicket+4)} {
		if _, refusal := (Ridges{}).CheckTicket(context.Background(), verifier(t), blob); refusal == nil || refusal.Code != "malformed_ticket" {
			t.Errorf("%.20q: %v", blob, refusal)
		}
	}
}
