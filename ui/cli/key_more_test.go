package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/agent"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

const (
	alice   = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
	alicePK = "0xd43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d"
)

// TestKeyImport imports every form that other tools write.
func TestKeyImport(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password := file("password", "grün\nnot this line\n")
	wrong := file("wrong", "gruen\n")
	for name, c := range map[string]struct {
		args []string
		code int
		says string // on stderr
	}{
		"uri":              {args: []string{file("uri", "//Alice\n")}},
		"browser wallet":   {args: []string{"../../auth/testdata/polkadot-alice.json", "--password-file", password}},
		"vault":            {args: []string{"../../auth/testdata/vault-alice", "--password-file", password}},
		"keyfile":          {args: []string{file("keyfile", `{"privateKey":"0x33a6f3093f158a7109f679410bef1a0c54168145e0cecb4df006c1c2fffb1f09925a225d97aa00682d6a59b95b18780c10d7032336e88f3442b42361f4a66011"}`)}},
		"wrong password":   {args: []string{"../../auth/testdata/vault-alice", "--password-file", wrong}, code: 4, says: "wrong password"},
		"wrong password 2": {args: []string{"../../auth/testdata/polkadot-alice.json", "--password-file", wrong}, code: 4, says: "wrong password"},
		"nobody to ask":    {args: []string{"../../auth/testdata/vault-alice"}, code: 2, says: "--password-file"},
		"public only":      {args: []string{file("public", `{"publicKey":"`+alicePK+`"}`)}, code: 4, says: "no secret"},
		"broken keyfile":   {args: []string{file("broken", `{"cryptoType":7,"secretPhrase":"correct horse"}`)}, code: 1, says: "cryptoType"},
		"junk":             {args: []string{file("junk", "correct horse battery staple")}, code: 2, says: "no secret that agon knows"},
		"no file":          {args: []string{filepath.Join(dir, "none")}, code: 5},
		"empty":            {args: []string{file("empty", "")}, code: 2},
		"too large":        {args: []string{file("large", strings.Repeat("x", maxImport+1))}, code: 7},
		"evil name":        {args: []string{file("uri2", "//Alice"), "../evil"}, code: 2},
	} {
		app, out, errOut := newApp(t)
		code := app.Main(context.Background(), append([]string{"key", "import", "-o", "json"}, c.args...))
		if code != c.code || !strings.Contains(errOut.String(), c.says) {
			t.Errorf("%s: exit %d: %s", name, code, errOut)
		}
		if code == 0 && !strings.Contains(out.String(), `"ss58":"`+alice+`"`) {
			t.Errorf("%s: %s", name, out)
		}
		for _, secret := range []string{"horse", "33a6f309", "grün", "gruen"} {
			if strings.Contains(out.String()+errOut.String(), secret) {
				t.Errorf("%s: shows the secret: %s %s", name, out, errOut)
			}
		}
	}
}

func TestKeyExportPublic(t *testing.T) {
	app, _, errOut := newApp(t)
	app.IO.In = strings.NewReader("//Alice")
	if code := app.Main(context.Background(), []string{"key", "import", "-", "--coldkey", alice}); code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	for _, args := range [][]string{{"key", "export-public"}, {"key", "export-public", "default"}, {"key", "export-public", "--coldkey"}} {
		next, out, errOut := newApp(t)
		next.Env = app.Env
		if code := next.Main(context.Background(), args); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errOut)
		}
		// What a wallet reads back.
		f, err := auth.ParseKeyfile([]byte(out.String()))
		var fields map[string]string
		if err != nil || f.Address != alice || f.Key != nil || json.Unmarshal([]byte(out.String()), &fields) != nil ||
			fields["publicKey"] != alicePK || fields["accountId"] != alicePK || len(fields) != 3 {
			t.Errorf("%v: %s %v", args, out, err)
		}
	}
}

// signal closes ready when it has seen text.
type signal struct {
	iostreams.Buffer
	text  string
	ready chan struct{}
	once  sync.Once
}

func (s *signal) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if bytes.Contains([]byte(s.String()), []byte(s.text)) {
		s.once.Do(func() { close(s.ready) })
	}
	return n, err
}

// TestKeyAgent signs through the agent with no key at hand, and not without it.
func TestKeyAgent(t *testing.T) {
	host, _, errOut := newApp(t)
	host.IO.In = strings.NewReader("//Alice")
	if code := host.Main(context.Background(), []string{"key", "import", "-"}); code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	short, err := os.MkdirTemp("", "agon-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	socket := filepath.Join(short, "run", "agent.sock")

	keeper, _, _ := newApp(t)
	keeper.Env = host.Env
	said := &signal{text: "keys: 1;", ready: make(chan struct{})}
	keeper.IO.Err = said
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	exit := make(chan int, 1)
	go func() { exit <- keeper.Main(ctx, []string{"key", "agent", "--socket", socket}) }()
	select {
	case <-said.ready:
	case code := <-exit:
		t.Fatalf("agent ended with %d: %s", code, said.String())
	}

	sign := func() (int, string, string) {
		daemon, out, errOut := newApp(t) // another home: no wallet there
		daemon.Env.Getenv = func(name string) string {
			return map[string]string{agent.EnvSocket: socket}[name]
		}
		code := daemon.Main(context.Background(), []string{"key", "sign", "hello", "-o", "json"})
		return code, out.String(), errOut.String()
	}
	code, out, said2 := sign()
	var got struct{ SS58, Signature string }
	if code != 0 || json.Unmarshal([]byte(out), &got) != nil || got.SS58 != alice {
		t.Fatalf("exit %d: %s %s", code, out, said2)
	}
	sig, err := auth.ParseSignature(got.Signature)
	if err != nil || auth.Verify(alice, []byte("hello"), sig) != nil {
		t.Errorf("signature %s: %v", got.Signature, err)
	}
	second, _, errOut2 := newApp(t)
	second.Env = host.Env
	if code := second.Main(context.Background(), []string{"key", "agent", "--socket", socket}); code == 0 || !strings.Contains(errOut2.String(), "already") {
		t.Errorf("second agent: exit %d: %s", code, errOut2)
	}
	cancel()
	if code := <-exit; code != 0 {
		t.Errorf("agent ended with %d: %s", code, said.String())
	}
	if code, out, _ := sign(); code == 0 {
		t.Errorf("signed without the agent: %s", out)
	}
}

// A coldkey's agent signs the calls that its policy lists, up to their limits, for
// commands of a user without the coldkey.
func TestColdkeyAgent(t *testing.T) {
	host, _, errOut := newApp(t)
	if code := host.Main(t.Context(), []string{"key", "new", "--save-coldkey"}); code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	w, err := host.wallet()
	if err != nil {
		t.Fatal(err)
	}
	address, err := w.ColdkeyAddress()
	if err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "agon-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	socket := filepath.Join(short, "run", "cold.sock")
	genesis := strings.Repeat("05", 32)
	for _, args := range [][]string{{"--allow", "7.2"}, {"--allow", "text", "--genesis", genesis}, {"--genesis", genesis, "--allow", "5.3=x"}, {"name", "--allow", "7.2", "--genesis", genesis}} {
		refused, _, _ := newApp(t)
		refused.Env = host.Env
		if code := refused.Main(t.Context(), append([]string{"key", "agent", "--coldkey", "--socket", socket}, args...)); code != 2 {
			t.Errorf("%v: exit %d", args, code)
		}
	}
	keeper, _, _ := newApp(t)
	keeper.Env = host.Env
	said := &signal{text: "keys: 1;", ready: make(chan struct{})}
	keeper.IO.Err = said
	ctx, cancel := context.WithCancel(t.Context())
	exit := make(chan int, 1)
	go func() {
		exit <- keeper.Main(ctx, []string{"key", "agent", "--coldkey", "--socket", socket, "--allow", "7.2=2", "--genesis", genesis})
	}()
	defer func() { cancel(); <-exit }()
	select {
	case <-said.ready:
	case code := <-exit:
		exit <- code
		t.Fatalf("agent ended with %d: %s", code, said.String())
	}
	operator, _, _ := newApp(t) // another home: no wallet there
	operator.Env.Getenv = func(name string) string { return map[string]string{envColdAgent: socket}[name] }
	s, err := operator.ledgerSigner(address)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := s.(*agent.Client)
	if !ok {
		t.Fatalf("signed by %T", s)
	}
	defer c.Close()
	call := func(rao byte) []byte { // add_stake: a hotkey, a netuid, an amount; then what extrinsics have besides
		b := append([]byte{7, 2}, make([]byte, 34)...)
		b = append(b, 0, 0, 0, rao, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0)
		return append(append(append(b, bytes.Repeat([]byte{5}, 32)...), make([]byte, 32)...), 0)
	}
	if sig, err := c.SignExtrinsic(call(100)); err != nil || len(sig) != 64 { // 1.7 TAO
		t.Errorf("a call within its limit: %v", err)
	}
	for name, err := range map[string]error{
		"over the limit": func() error { _, err := c.SignExtrinsic(call(200)); return err }(),
		"text":           func() error { _, err := c.Sign([]byte("hello")); return err }(),
	} {
		if refused := (*agent.Error)(nil); !errors.As(err, &refused) || refused.Code != agent.CodePolicy {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whose secret is missing is said as it is: another key's, or that of the wallet's coldkey.
func TestWhoHasToSign(t *testing.T) {
	a, _, errs := newApp(t)
	if code := a.Main(t.Context(), []string{"key", "new", "--save-coldkey"}); code != 0 {
		t.Fatalf("key new: %s", errs)
	}
	_, err := a.ledgerSigner("5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty")
	if err == nil || !strings.Contains(err.Error(), "the wallet's coldkey is another one") {
		t.Errorf("another coldkey: %v", err)
	}
	w, err := a.wallet()
	if err != nil {
		t.Fatal(err)
	}
	cold, err := w.ColdkeyAddress()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.ColdkeyPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ledgerSigner(cold); err == nil || !strings.Contains(err.Error(), "is not on this machine") {
		t.Errorf("a coldkey whose secret is elsewhere: %v", err)
	}
}
