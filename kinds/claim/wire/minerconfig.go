package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
)

// What a miner leaves with the platform: keys of providers, which its scripts' calls are
// made with, and how often a failed attempt is tried again. A key is sealed on disk and
// never read out again.

// KeyProviders are those that a miner may leave a key of.
var KeyProviders = []string{"ai_gateway", "chutes", "desearch", "exa", "firecrawl", "openrouter", "parallel", "tavily"}

const (
	maxRetries  = 3
	maxSecret   = 4 << 10
	credentials = "provider_credentials."
	retryKey    = "task_retry_count"
)

type minerConfig struct {
	Retries int                    `json:"task_retry_count"`
	Keys    map[string]*sealedText `json:"keys,omitempty"`
}

type sealedText struct {
	Sealed  []byte    `json:"sealed"` // nonce and ciphertext
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
}

func configName(hotkey string) string { return "miner-" + sha([]byte(hotkey))[:32] }

// openSecret reads the platform's own secret below dir, or makes it.
func openSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, "secret")
	b, err := os.ReadFile(path)
	if err == nil && len(b) == 32 {
		return b, nil
	}
	if err == nil {
		return nil, fmt.Errorf("read %s: it is not whole", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	b = make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(b)
	return b, errors.Join(err, f.Sync(), f.Close())
}

func (p *Platform) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(p.work.secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// credential is a miner's key of a provider; "" without one.
func (p *Platform) credential(hotkey, provider string) (string, error) {
	var c minerConfig
	if ok, err := p.dir.Get(configName(hotkey), &c); err != nil || !ok || c.Keys[provider] == nil {
		return "", err
	}
	x, err := p.aead()
	if err != nil {
		return "", err
	}
	b := c.Keys[provider].Sealed
	if len(b) < x.NonceSize() {
		return "", errors.New("a sealed key is not whole")
	}
	out, err := x.Open(nil, b[:x.NonceSize()], b[x.NonceSize():], []byte(hotkey+" "+provider))
	return string(out), err
}

// retries is how often a miner's failed attempts are tried again.
func (p *Platform) retries(hotkey string) (int, error) {
	var c minerConfig
	_, err := p.dir.Get(configName(hotkey), &c)
	return min(max(c.Retries, 0), maxRetries), err
}

// minerConfig is GET, PUT and DELETE /v1/miner-config.
func (p *Platform) minerConfig(w http.ResponseWriter, r *http.Request) {
	id, body, ok := signed(w, r, p.cfg.Verifier, dialect.Need{Registered: true}, 64<<10)
	if !ok {
		return
	}
	p.config.Lock()
	defer p.config.Unlock()
	var c minerConfig
	if _, err := p.dir.Get(configName(id.Hotkey), &c); err != nil {
		p.broken(w, "read miner config", err)
		return
	}
	if r.Method != http.MethodGet {
		var in struct {
			Key   string  `json:"key"`
			Value *string `json:"value"`
		}
		if !decode(w, body, true, &in) {
			return
		}
		if r.Method == http.MethodPut && in.Value == nil {
			invalid(w, "missing", "Field required", "value")
			return
		}
		if err := p.configure(&c, id.Hotkey, in.Key, in.Value); err != nil {
			refuse(w, http.StatusUnprocessableEntity, "invalid_miner_config", "%s", err)
			return
		}
		if err := p.dir.Put(configName(id.Hotkey), c); err != nil {
			p.broken(w, "keep miner config", err)
			return
		}
	}
	shown := map[string]any{}
	for _, name := range KeyProviders {
		row := map[string]any{"provider": name, "exists": false, "created_at": nil, "updated_at": nil}
		if k := c.Keys[name]; k != nil {
			row["exists"], row["created_at"], row["updated_at"] = true, k.Created, k.Updated
		}
		shown[name] = row
	}
	reply(w, http.StatusOK, map[string]any{"miner_hotkey_ss58": id.Hotkey, "uid": int(id.Member.UID), "task_retry_count": c.Retries, "provider_credentials": shown})
}

// configure sets one value; nil takes it away.
func (p *Platform) configure(c *minerConfig, hotkey, key string, value *string) error {
	if key == retryKey {
		switch {
		case value == nil:
			c.Retries = 0
		case len(*value) != 1 || *value < "0" || *value > "3":
			return fmt.Errorf("%s: want \"0\" to \"%d\"", retryKey, maxRetries)
		default:
			c.Retries = int((*value)[0] - '0')
		}
		return nil
	}
	provider, ok := strings.CutPrefix(key, credentials)
	if !ok || !slices.Contains(KeyProviders, provider) {
		return fmt.Errorf("key: want %s or %s with one of %s", retryKey, credentials, strings.Join(KeyProviders, ", "))
	}
	if value == nil {
		delete(c.Keys, provider)
		return nil
	}
	secret := strings.TrimSpace(*value)
	if secret == "" || len(secret) > maxSecret || strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("value: want a key of 1 to %d printable characters", maxSecret)
	}
	x, err := p.aead()
	if err != nil {
		return err
	}
	nonce := make([]byte, x.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return err
	}
	now := p.cfg.Now().UTC()
	k := &sealedText{Created: now, Updated: now, Sealed: x.Seal(nonce, nonce, []byte(secret), []byte(hotkey+" "+provider))}
	if was := c.Keys[provider]; was != nil {
		k.Created = was.Created
	}
	if c.Keys == nil {
		c.Keys = map[string]*sealedText{}
	}
	c.Keys[provider] = k
	return nil
}
