// Package config resolves agon's settings: flag, then AGON_* environment,
// then agon.toml (found by walking up from the working directory), then the
// user's config.toml, then the default. Each value remembers where it came from.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
)

// Keys of the settings, as config view shows them and files write them
// ("wallet.name" is name in the table [wallet]).
const (
	URL          = "url"
	Data         = "data"
	Listen       = "listen"
	Store        = "store"    // may hold a password: from the environment or the command line
	Blobs        = "blobs"    // reached with the machine's credentials: from the environment or the command line
	TLSCert      = "tls_cert" // certificates come from the environment or the command line: a found file must not choose whom to trust
	TLSKey       = "tls_key"
	ClientCA     = "client_ca"
	CA           = "ca"
	ClientCert   = "client_cert"
	ClientKey    = "client_key"
	Cache        = "cache"
	WalletName   = "wallet.name"
	WalletHotkey = "wallet.hotkey"
	WalletPath   = "wallet.path"
	LLMBaseURL   = "llm.base_url"
	LLMModel     = "llm.model"
	LLMAPIKey    = "llm.api_key" // secret: from the environment only
)

// FileName is the project file that is looked for upwards.
const FileName = "agon.toml"

// maxFile bounds a config file in bytes.
const maxFile = 64 << 10

// key describes one setting.
type key struct {
	name   string
	env    []string // first wins
	secret bool
	isPath bool // "~/" is expanded; relative to the file it stands in
	noFile bool // it is not a secret, and stands in no file either
}

var keys = []key{
	{name: URL, env: []string{"AGON_URL"}},
	{name: Data, env: []string{"AGON_DATA"}, isPath: true},
	{name: Listen, env: []string{"AGON_LISTEN"}},
	{name: Store, env: []string{"AGON_STORE"}, secret: true},
	{name: Blobs, env: []string{"AGON_BLOBS"}, secret: true},
	{name: TLSCert, env: []string{"AGON_TLS_CERT"}, isPath: true, noFile: true},
	{name: TLSKey, env: []string{"AGON_TLS_KEY"}, isPath: true, noFile: true},
	{name: ClientCA, env: []string{"AGON_CLIENT_CA"}, isPath: true, noFile: true},
	{name: CA, env: []string{"AGON_CA"}, isPath: true, noFile: true},
	{name: ClientCert, env: []string{"AGON_CLIENT_CERT"}, isPath: true, noFile: true},
	{name: ClientKey, env: []string{"AGON_CLIENT_KEY"}, isPath: true, noFile: true},
	{name: Cache, env: []string{"AGON_CACHE"}, isPath: true},
	{name: WalletName, env: []string{"AGON_WALLET_NAME", "BT_WALLET_NAME", "WALLET_NAME"}},
	{name: WalletHotkey, env: []string{"AGON_WALLET_HOTKEY", "BT_WALLET_HOTKEY", "WALLET_HOTKEY"}},
	{name: WalletPath, env: []string{"AGON_WALLET_PATH", "BT_WALLET_PATH"}, isPath: true},
	{name: LLMBaseURL, env: []string{"AGON_LLM_BASE_URL"}},
	{name: LLMModel, env: []string{"AGON_LLM_MODEL"}},
	{name: LLMAPIKey, env: []string{"AGON_LLM_API_KEY"}, secret: true},
}

// source ranks where a value came from; higher wins.
type source int

const (
	fromDefault source = iota
	fromUser
	fromProject
	fromEnv
	fromFlag
)

// Setting is one value and its origin. A secret has no Value in JSON or text.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // of a secret: "set" or "unset"
	Origin string `json:"origin"`
}

type value struct {
	text   string
	origin string
	src    source
}

// Config holds the resolved settings.
type Config struct {
	values map[string]value
	// Warnings are for stderr.
	Warnings []string
}

// Env is what Load reads of the world; tests give their own.
type Env struct {
	Getenv        func(string) string
	Dir           string // working directory
	Home          string
	UserConfigDir string // "" = none
	UserCacheDir  string
}

// System returns the Env of this process.
func System() (Env, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Env{}, fmt.Errorf("find working directory: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = string(filepath.Separator) // a service without HOME gives --data
	}
	e := Env{Getenv: os.Getenv, Dir: dir, Home: home, UserCacheDir: filepath.Join(home, ".cache")}
	if d, err := os.UserConfigDir(); err == nil {
		e.UserConfigDir = d
	}
	if d, err := os.UserCacheDir(); err == nil {
		e.UserCacheDir = d
	}
	return e, nil
}

// Load resolves every setting. Flags holds what the command line set, by key.
// Errors are *agon.Error with code "bad_config" and name file and key.
func Load(e Env, flags map[string]string) (*Config, error) {
	c := &Config{values: map[string]value{}}
	for k, v := range map[string]string{
		URL:          "http://127.0.0.1:8900",
		Data:         filepath.Join(e.Home, ".local", "share", "agon"),
		Listen:       "127.0.0.1:8900",
		Store:        "",
		Blobs:        "",
		TLSCert:      "",
		TLSKey:       "",
		ClientCA:     "",
		CA:           "",
		ClientCert:   "",
		ClientKey:    "",
		Cache:        filepath.Join(e.UserCacheDir, "agon"),
		WalletName:   "default",
		WalletHotkey: "default",
		WalletPath:   filepath.Join(e.Home, ".bittensor", "wallets"),
		LLMBaseURL:   "",
		LLMModel:     "",
		LLMAPIKey:    "",
	} {
		c.values[k] = value{v, "default", fromDefault}
	}
	if e.UserConfigDir != "" {
		if err := c.file(filepath.Join(e.UserConfigDir, "agon", "config.toml"), fromUser, e); err != nil {
			return nil, err
		}
	}
	if p := findUp(e.Dir); p != "" {
		if err := c.file(p, fromProject, e); err != nil {
			return nil, err
		}
	}
	for _, k := range keys {
		for _, name := range k.env {
			if v := e.Getenv(name); v != "" {
				c.values[k.name] = value{k.expand(v, e.Dir, e.Home), "env " + name, fromEnv}
				break
			}
		}
	}
	for _, k := range keys {
		if v, ok := flags[k.name]; ok {
			c.values[k.name] = value{k.expand(v, e.Dir, e.Home), "flag", fromFlag}
		}
	}
	c.guardKey()
	return c, nil
}

// guardKey withholds the API key from an upstream that a found agon.toml
// names: such a file may come with a stranger's repository, the key is the user's.
func (c *Config) guardKey() {
	base, k := c.values[LLMBaseURL], c.values[LLMAPIKey]
	if base.src != fromProject || k.text == "" {
		return
	}
	c.Warnings = append(c.Warnings, fmt.Sprintf("llm.api_key is not used: llm.base_url comes from %s; to trust it, set AGON_LLM_BASE_URL=%s",
		base.origin, base.text))
	c.values[LLMAPIKey] = value{"", "withheld from " + base.origin, fromDefault}
}

// Get returns the value of one of the keys above.
func (c *Config) Get(key string) string { return c.values[key].text }

// Getenv returns an environment in which the resolved settings stand in the
// place of their AGON_* variables, for parts that read the environment. A
// withheld secret is withheld there too.
func (c *Config) Getenv(getenv func(string) string) func(string) string {
	return func(name string) string {
		for _, k := range keys {
			if k.env[0] == name {
				return c.values[k.name].text
			}
		}
		return getenv(name)
	}
}

// IsSet reports whether somebody chose the value of key: it is not a default.
func (c *Config) IsSet(key string) bool { return c.values[key].src != fromDefault }

// Settings lists every setting by key, secrets as "set" or "unset".
func (c *Config) Settings() []Setting {
	var out []Setting
	for _, k := range keys {
		v := c.values[k.name]
		if k.secret {
			if v.text == "" {
				v.text = "unset"
			} else {
				v.text = "set"
			}
		}
		out = append(out, Setting{k.name, v.text, v.origin})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

func (k key) expand(v, dir, home string) string {
	if !k.isPath || v == "" {
		return v
	}
	if v == "~" || strings.HasPrefix(v, "~/") {
		return filepath.Join(home, strings.TrimPrefix(v, "~"))
	}
	if !filepath.IsAbs(v) {
		return filepath.Join(dir, v)
	}
	return filepath.Clean(v)
}

// findUp returns the nearest agon.toml at or above dir, or "".
func findUp(dir string) string {
	for {
		p := filepath.Join(dir, FileName)
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// file reads one config file; a missing one is empty.
func (c *Config) file(path string, src source, e Env) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return bad(path, "", err.Error())
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return bad(path, "", err.Error())
	}
	vals, err := Parse(b)
	if err != nil {
		var ke *keyError
		if errors.As(err, &ke) {
			return bad(path, ke.key, ke.msg)
		}
		return bad(path, "", err.Error())
	}
	for _, k := range keys {
		if v, ok := vals[k.name]; ok {
			c.values[k.name] = value{k.expand(v, filepath.Dir(path), e.Home), path, src}
		}
	}
	return nil
}

func bad(path, field, msg string) error {
	e := &agon.Error{
		Code: "bad_config", Status: http.StatusBadRequest, Field: field, Message: fmt.Sprintf("%s: %s", path, msg),
		Mend: "correct that file, or move it away",
	}
	if field != "" {
		e.Message = fmt.Sprintf("%s: %s: %s", path, field, msg)
	}
	return e
}

// keyError names the key that is wrong.
type keyError struct{ key, msg string }

func (e *keyError) Error() string { return e.key + ": " + e.msg }

// Parse reads a config file into values by key. Unknown keys, values that are
// not text and secrets are errors.
func Parse(b []byte) (map[string]string, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	var doc map[string]any
	if err := toml.NewDecoder(bytes.NewReader(b)).Decode(&doc); err != nil {
		var de *toml.DecodeError
		if errors.As(err, &de) {
			line, col := de.Position()
			return nil, fmt.Errorf("line %d, column %d: %s", line, col, strings.TrimPrefix(de.Error(), "toml: "))
		}
		return nil, fmt.Errorf("not TOML: %w", err)
	}
	out := map[string]string{}
	if err := flatten("", doc, out); err != nil {
		return nil, err
	}
	return out, nil
}

func flatten(prefix string, doc map[string]any, out map[string]string) error {
	names := make([]string, 0, len(doc))
	for name := range doc {
		names = append(names, name)
	}
	sort.Strings(names) // the same file gives the same error
	for _, name := range names {
		full := prefix + name
		switch v := doc[name].(type) {
		case map[string]any:
			if prefix != "" || (name != "wallet" && name != "llm") {
				return &keyError{full, "no such table"}
			}
			if err := flatten(name+".", v, out); err != nil {
				return err
			}
		case string:
			k, ok := lookup(full)
			if !ok {
				return &keyError{full, "no such setting"}
			}
			if k.secret {
				return &keyError{full, "secrets do not belong in a config file; set " + k.env[0]}
			}
			if k.noFile {
				return &keyError{full, "a config file does not choose certificates; set " + k.env[0]}
			}
			out[full] = v
		default:
			if _, ok := lookup(full); !ok {
				return &keyError{full, "no such setting"}
			}
			return &keyError{full, "want a text in quotes"}
		}
	}
	return nil
}

func lookup(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}
