package task

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// pipSettings are the options of pip that decide where it downloads from; all
// others of the operator's are left behind. true marks a path on this host.
var pipSettings = map[string]bool{
	"index-url": false, "extra-index-url": false, "find-links": false, "no-index": false,
	"trusted-host": false, "proxy": false, "cert": true, "client-cert": true,
}

// pipEnvironment are variables that pip's own libraries read; true marks a path.
var pipEnvironment = map[string]bool{
	"SSL_CERT_FILE": true, "REQUESTS_CA_BUNDLE": true, "CURL_CA_BUNDLE": true,
	"HTTP_PROXY": false, "HTTPS_PROXY": false, "ALL_PROXY": false, "NO_PROXY": false,
	"http_proxy": false, "https_proxy": false, "all_proxy": false, "no_proxy": false,
}

// systemBundles are where systems keep their certificate authorities. The
// operator's own authority is in there where it is in no setting of pip's.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// maxPipFile bounds what is read of pip's settings and certificates.
const maxPipFile = 4 << 20

// pipConf is what a box needs so that pip in it finds what the operator's pip finds.
type pipConf struct {
	env   []string          // "K=V" for the box
	files map[string][]byte // name below the mounted directory to content
	links []string          // local find-links directories of this host, in order
}

// hostPip gathers the operator's settings: environment variables win over
// pip's configuration files, user's files over the system's. files are shown
// in the box at dir; the i-th link directory at links(i).
func hostPip(environ []string, readFile func(string) ([]byte, error), dir string, links func(int) string) pipConf {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && v != "" {
			env[k] = v
		}
	}
	values := map[string]string{}
	for _, p := range pipFiles(env) {
		b, err := readFile(p)
		if err != nil || len(b) > maxPipFile {
			continue // pip goes on without a file that it cannot read, too
		}
		for k, v := range parsePipFile(b) {
			values[k] = v
		}
	}
	for k := range pipSettings {
		if v, ok := env["PIP_"+strings.ToUpper(strings.ReplaceAll(k, "-", "_"))]; ok {
			values[k] = v
		}
	}
	c := pipConf{files: map[string][]byte{}}
	set := func(name, value string, isPath bool) {
		if isPath {
			b, err := readFile(value)
			if err != nil || len(b) > maxPipFile {
				return
			}
			file := strings.ToLower(name) + ".pem"
			c.files[file] = b
			value = dir + "/" + file
		}
		c.env = append(c.env, name+"="+value)
	}
	for _, k := range sortedKeys(pipSettings) {
		v := values[k]
		if k == "find-links" {
			v = c.findLinks(v, links)
		}
		if v != "" {
			set("PIP_"+strings.ToUpper(strings.ReplaceAll(k, "-", "_")), v, pipSettings[k])
		}
	}
	for _, k := range sortedKeys(pipEnvironment) {
		if v := env[k]; v != "" {
			set(k, v, pipEnvironment[k])
		}
	}
	if len(c.files) == 0 {
		for _, p := range systemBundles {
			if _, err := readFile(p); err == nil {
				set("PIP_CERT", p, true)
				break
			}
		}
	}
	return c
}

// findLinks keeps URLs and notes local directories, which are mounted.
func (c *pipConf) findLinks(v string, links func(int) string) string {
	var out []string
	for _, l := range strings.Fields(v) {
		local := strings.TrimPrefix(l, "file://")
		switch {
		case !filepath.IsAbs(local):
			out = append(out, l)
		case len(c.links) < 2:
			if st, err := os.Stat(local); err == nil && st.IsDir() {
				out = append(out, links(len(c.links)))
				c.links = append(c.links, local)
			}
		}
	}
	return strings.Join(out, " ")
}

// pipFiles lists pip's configuration files, weakest first.
func pipFiles(env map[string]string) []string {
	if env["PIP_CONFIG_FILE"] == os.DevNull {
		return nil
	}
	files := []string{"/etc/xdg/pip/pip.conf", "/etc/pip.conf"}
	if home := env["HOME"]; home != "" {
		config := env["XDG_CONFIG_HOME"]
		if config == "" {
			config = filepath.Join(home, ".config")
		}
		files = append(files, filepath.Join(home, ".pip", "pip.conf"), filepath.Join(config, "pip", "pip.conf"))
	}
	if venv := env["VIRTUAL_ENV"]; venv != "" {
		files = append(files, filepath.Join(venv, "pip.conf"))
	}
	if f := env["PIP_CONFIG_FILE"]; f != "" {
		files = append(files, f)
	}
	return files
}

// parsePipFile reads the settings we know from [global] and [download]; an
// indented line goes on with the value above it.
func parsePipFile(b []byte) map[string]string {
	global, download := map[string]string{}, map[string]string{}
	var section, key string
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, maxPipFile)
	for s.Scan() {
		line := s.Text()
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		if text[0] == '[' {
			section, key = strings.Trim(text, "[] \t"), ""
			continue
		}
		values := global
		switch section {
		case "global":
		case "download":
			values = download
		default:
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			if key != "" {
				values[key] = strings.TrimSpace(values[key] + " " + text)
			}
			continue
		}
		i := strings.IndexAny(text, "=:")
		if i < 0 {
			continue
		}
		key = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text[:i])), "_", "-")
		if _, known := pipSettings[key]; !known {
			key = ""
			continue
		}
		values[key] = strings.TrimSpace(text[i+1:])
	}
	for k, v := range download {
		global[k] = v
	}
	return global
}

// redact hides credentials of index URLs in what is shown of pip's output.
func (c *pipConf) redact(text string) string {
	for _, kv := range c.env {
		_, v, _ := strings.Cut(kv, "=")
		for _, u := range strings.Fields(v) {
			if _, rest, ok := strings.Cut(u, "://"); ok {
				if cred, _, ok := strings.Cut(rest, "@"); ok && !strings.Contains(cred, "/") {
					text = strings.ReplaceAll(text, cred+"@", "***@")
				}
			}
		}
	}
	return text
}
