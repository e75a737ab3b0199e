package indexes

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxSettings bounds a file of settings, in bytes.
const maxSettings = 1 << 20

// pipIndex is the operator's index: of the environment, else of the user's, else
// of the system's files.
func pipIndex(getenv func(string) string) string {
	if v := getenv("PIP_INDEX_URL"); v != "" {
		return v
	}
	for _, p := range []string{getenv("PIP_CONFIG_FILE"), under(getenv("HOME"), ".config/pip/pip.conf"), under(getenv("HOME"), ".pip/pip.conf"), "/etc/pip.conf"} {
		for _, line := range settings(p) {
			k, v, ok := strings.Cut(line, "=")
			if ok && strings.ReplaceAll(strings.TrimSpace(k), "_", "-") == "index-url" {
				return strings.TrimSpace(v)
			}
		}
	}
	return ""
}

// npmRegistry is the operator's registry of npm, and the key for it.
func npmRegistry(getenv func(string) string) (registry, key string) {
	if registry = getenv("NPM_CONFIG_REGISTRY"); registry == "" {
		registry = getenv("npm_config_registry")
	}
	lines := append(settings(under(getenv("HOME"), ".npmrc")), settings("/etc/npmrc")...)
	for _, line := range lines {
		k, v, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(k) == "registry" && registry == "" {
			registry = strings.TrimSpace(v)
		}
	}
	host := strings.TrimRight(registry, "/")
	if host == "" {
		host = "https://registry.npmjs.org"
	}
	_, host, _ = strings.Cut(host, ":")
	for _, line := range lines {
		k, v, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(k) == host+"/:_authToken" {
			v = strings.TrimSpace(v)
			if name, env := strings.CutPrefix(v, "${"); env { // kept by reference
				v = getenv(strings.TrimSuffix(name, "}"))
			}
			return registry, v
		}
	}
	return registry, ""
}

func under(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// settings are the lines of a file that say something; none if it is not there.
func settings(p string) (out []string) {
	if p == "" || p == os.DevNull {
		return nil
	}
	f, err := os.Open(p)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err != nil {
		return nil
	}
	s := bufio.NewScanner(bytes.NewReader(b))
	for s.Scan() {
		if l := strings.TrimSpace(s.Text()); l != "" && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, ";") {
			out = append(out, l)
		}
	}
	return out
}
