package wire

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/internal/sealed"
)

// What a miner leaves with the platform: keys of providers, which its scripts' calls are
// made with, and how often a failed attempt is tried again. A key is sealed on disk and
// never read out again.

// KeyProviders are those that a miner may leave a key of.
var KeyProviders = []string{"ai_gateway", "chutes", "desearch", "exa", "firecrawl", "openrouter", "parallel", "tavily"}

const (
	maxRetries  = 3
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

// credential is a miner's key of a provider; "" without one.
func (p *Platform) credential(hotkey, provider string) (string, error) {
	var c minerConfig
	if ok, err := p.dir.Get(configName(hotkey), &c); err != nil || !ok || c.Keys[provider] == nil {
		return "", err
	}
	return p.work.secret.Unseal(c.Keys[provider].Sealed, hotkey+" "+provider)
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
	secret, ok := sealed.Clean(*value)
	if !ok {
		return fmt.Errorf("value: want a key of 1 to %d printable characters", sealed.MaxSecret)
	}
	b, err := p.work.secret.Seal(secret, hotkey+" "+provider)
	if err != nil {
		return err
	}
	now := p.cfg.Now().UTC()
	k := &sealedText{Created: now, Updated: now, Sealed: b}
	if was := c.Keys[provider]; was != nil {
		k.Created = was.Created
	}
	if c.Keys == nil {
		c.Keys = map[string]*sealedText{}
	}
	c.Keys[provider] = k
	return nil
}
