package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// world is a home with a user file, a project file and an environment.
func world(t *testing.T, user, project string, env map[string]string) Env {
	t.Helper()
	root := t.TempDir()
	home := filepath.Join(root, "home")
	work := filepath.Join(root, "project", "deep", "down")
	conf := filepath.Join(home, ".config")
	for _, d := range []string{work, filepath.Join(conf, "agon")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		if text == "" {
			return
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(conf, "agon", "config.toml"), user)
	write(filepath.Join(root, "project", FileName), project)
	return Env{
		Getenv: func(k string) string { return env[k] }, Dir: work, Home: home, UserConfigDir: conf,
		UserCacheDir: filepath.Join(home, ".cache"),
	}
}

func TestPrecedence(t *testing.T) {
	user, project := `url = "http://user"`, `url = "http://project"`
	env := map[string]string{"AGON_URL": "http://env"}
	flag := map[string]string{URL: "http://flag"}
	tests := []struct {
		name          string
		user, project string
		env, flags    map[string]string
		want, origin  string // origin: suffix
	}{
		{"default", "", "", nil, nil, "http://127.0.0.1:8900", "default"},
		{"user", user, "", nil, nil, "http://user", "config.toml"},
		{"project", user, project, nil, nil, "http://project", "agon.toml"},
		{"env", user, project, env, nil, "http://env", "env AGON_URL"},
		{"flag", user, project, env, flag, "http://flag", "flag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(world(t, tt.user, tt.project, tt.env), tt.flags)
			if err != nil {
				t.Fatal(err)
			}
			if c.Get(URL) != tt.want || c.IsSet(URL) != (tt.name != "default") {
				t.Errorf("url %q, set %v", c.Get(URL), c.IsSet(URL))
			}
			for _, s := range c.Settings() {
				if s.Key == URL && !strings.HasSuffix(s.Origin, tt.origin) {
					t.Errorf("origin %q, want %q", s.Origin, tt.origin)
				}
			}
		})
	}
}

func TestWalletEnv(t *testing.T) {
	env := map[string]string{"BT_WALLET_NAME": "bt", "BT_WALLET_HOTKEY": "bthot", "AGON_WALLET_HOTKEY": "hot"}
	c, err := Load(world(t, "", "", env), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Get(WalletName) != "bt" || c.Get(WalletHotkey) != "hot" {
		t.Errorf("wallet %q, hotkey %q", c.Get(WalletName), c.Get(WalletHotkey))
	}
}

func TestPathsAreRelativeToTheirFile(t *testing.T) {
	e := world(t, `data = "~/d"`, `cache = "c"`, map[string]string{"AGON_WALLET_PATH": "w"})
	c, err := Load(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]string{
		Data:       filepath.Join(e.Home, "d"),
		Cache:      filepath.Join(filepath.Dir(filepath.Dir(e.Dir)), "c"),
		WalletPath: filepath.Join(e.Dir, "w"),
	} {
		if got := c.Get(k); got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
}

func TestSecretsStaySecret(t *testing.T) {
	c, err := Load(world(t, "", "", map[string]string{"AGON_LLM_API_KEY": "sk-secret"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Get(LLMAPIKey) != "sk-secret" {
		t.Error("the key is lost")
	}
	b, err := json.Marshal(c.Settings())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "sk-secret") || !strings.Contains(string(b), `"value":"set"`) {
		t.Errorf("settings %s", b)
	}
}

func TestAKeyIsNotSentWhereAFoundFileSays(t *testing.T) {
	env := map[string]string{"AGON_LLM_API_KEY": "sk-secret"}
	project := "[llm]\nbase_url = \"http://thief.example\"\n"
	c, err := Load(world(t, "", project, env), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Get(LLMAPIKey) != "" || len(c.Warnings) != 1 {
		t.Errorf("key %q, warnings %q", c.Get(LLMAPIKey), c.Warnings)
	}
	seen := c.Getenv(func(k string) string { return env[k] + "!" })
	if seen("AGON_LLM_API_KEY") != "" || seen("AGON_LLM_BASE_URL") != "http://thief.example" || seen("OTHER") != "!" {
		t.Errorf("environment: key %q, base %q", seen("AGON_LLM_API_KEY"), seen("AGON_LLM_BASE_URL"))
	}
	env["AGON_LLM_BASE_URL"] = "http://mine.example"
	c, err = Load(world(t, "", project, env), nil)
	if err != nil || c.Get(LLMAPIKey) == "" || len(c.Warnings) != 0 {
		t.Errorf("%v, key %q, warnings %q", err, c.Get(LLMAPIKey), c.Warnings)
	}
	// The user's own file is the user's word.
	delete(env, "AGON_LLM_BASE_URL")
	c, err = Load(world(t, project, "", env), nil)
	if err != nil || c.Get(LLMAPIKey) == "" {
		t.Errorf("%v, key %q", err, c.Get(LLMAPIKey))
	}
}

func TestBadFiles(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"not toml", "url = ", "line 1"},
		{"unknown key", `ulr = "x"`, "ulr: no such setting"},
		{"unknown table", "[validator]\nx = 1", "validator: no such table"},
		{"nested table", "[wallet.more]\nx = 1", "wallet.more: no such table"},
		{"number", "listen = 8900", "listen: want a text in quotes"},
		{"secret", "[llm]\napi_key = \"sk\"", "llm.api_key: secrets do not belong"},
		{"huge", "#" + strings.Repeat("x", maxFile), "larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(world(t, "", tt.text, nil), nil)
			var e *agon.Error
			if !errors.As(err, &e) || e.Code != "bad_config" || e.Mend == "" {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Message, FileName) {
				t.Errorf("message %q, want %q", e.Message, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`url = "x"`, "[wallet]\nname = \"a\"", "[llm]\napi_key = \"k\"", "a.b.c = 1", "url = 1979-05-27"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		vals, err := Parse(b)
		if err != nil {
			return
		}
		for k := range vals {
			if kk, ok := lookup(k); !ok || kk.secret {
				t.Fatalf("took %q", k)
			}
		}
	})
}
