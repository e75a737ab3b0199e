package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// No engine and no service manager runs here: the files of deploy/ are read as
// those would read them, and what must never stand in them is looked for.

func deployFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(string(b), "")
}

func TestDeployNeverSays(t *testing.T) {
	for _, name := range []string{"Dockerfile", "compose.yaml", "agon-validator.service"} {
		text := deployFile(t, name)
		for _, bad := range []string{"docker.sock", "containerd.sock", "privileged", "network_mode", "pid: host", ":latest"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s says %q", name, bad)
			}
		}
	}
	for _, f := range []string{"runsc.sh", "rootfs.sh"} {
		if fi, err := os.Stat("../../scripts/" + f); err != nil || fi.Mode()&0o100 == 0 {
			t.Errorf("scripts/%s cannot be run: %v", f, err)
		}
	}
}

// lintDockerfile returns what is wrong with a Dockerfile.
func lintDockerfile(text string) (bad []string) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "USER", "ENTRYPOINT", "CMD", "ARG", "EXPOSE", "LABEL", "HEALTHCHECK"}
	var stages []string
	user, entry := "", false
	for l := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		l = strings.TrimSpace(l)
		if l == "" {
			continue
		}
		word, rest, _ := strings.Cut(l, " ")
		f := strings.Fields(rest)
		if !slices.Contains(known, word) || len(f) == 0 {
			say("%.60q: not an instruction of ours", l)
			continue
		}
		if len(stages) == 0 && word != "FROM" {
			say("%s before any FROM", word)
		}
		switch word {
		case "FROM":
			user, entry = "root", false
			if _, tag, ok := strings.Cut(f[0], ":"); (!ok || tag == "") && !slices.Contains(stages, f[0]) {
				say("FROM %s: no version", f[0])
			}
			name := fmt.Sprint(len(stages))
			if len(f) == 3 && strings.EqualFold(f[1], "as") {
				name = f[2]
			}
			stages = append(stages, name)
		case "COPY":
			from, named := strings.CutPrefix(f[0], "--from=")
			if named && !slices.Contains(stages, from) {
				say("COPY from %s, which is not an earlier stage", from)
			}
		case "RUN":
			if strings.Contains(rest, "apt-get install") {
				for _, want := range []string{"apt-get update &&", "--no-install-recommends", " -y", "rm -rf /var/lib/apt/lists/*"} {
					if !strings.Contains(rest, want) {
						say("apt-get install without %s", want)
					}
				}
			}
			for _, w := range []string{"sudo ", "curl ", "wget ", "| sh", "chmod 777"} {
				if strings.Contains(rest, w) {
					say("RUN says %q", w)
				}
			}
		case "USER":
			user = f[0]
		case "ENTRYPOINT", "CMD":
			entry = entry || word == "ENTRYPOINT"
			if !strings.HasPrefix(rest, "[\"") || !strings.HasSuffix(rest, "\"]") {
				say("%s is not a list: a shell would be process 1", word)
			}
		}
	}
	if user == "root" || user == "0" {
		say("the last stage runs as root")
	}
	if !entry {
		say("no ENTRYPOINT")
	}
	return bad
}

func TestDockerfile(t *testing.T) {
	text := deployFile(t, "Dockerfile")
	for _, b := range lintDockerfile(text) {
		t.Error(b)
	}
	for _, want := range []string{"CGO_ENABLED=0", "USER 1000", "scripts/runsc.sh", "scripts/rootfs.sh", "bubblewrap"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	// The lint finds what it is there for.
	for _, wrong := range []string{
		"RUN x\nFROM a:1\nUSER 1\nENTRYPOINT [\"a\"]", "FROM a\nUSER 1\nENTRYPOINT [\"a\"]", "FROM a:1\nENTRYPOINT [\"a\"]",
		"FROM a:1\nUSER 1\nENTRYPOINT a", "FROM a:1\nUSER 1", "FROM a:1\nCOPY --from=b x y\nUSER 1\nENTRYPOINT [\"a\"]",
		"FROM a:1\nRUN apt-get install -y x\nUSER 1\nENTRYPOINT [\"a\"]", "FROM a:1\nADD x y\nUSER 1\nENTRYPOINT [\"a\"]",
	} {
		if len(lintDockerfile(wrong)) == 0 {
			t.Errorf("nothing wrong with %q", wrong)
		}
	}
}

func TestCompose(t *testing.T) {
	type service struct {
		Image   string
		Build   struct{ Context, Dockerfile string }
		Command []string
		User    string
		Extends struct{ Service string }
		CapDrop []string `yaml:"cap_drop"`
		CapAdd  []string `yaml:"cap_add"`
		Options []string `yaml:"security_opt"`
		Only    bool     `yaml:"read_only"`
		Tmpfs   []string
		Volumes []string
		Restart string
		Memory  string `yaml:"mem_limit"`
		Pids    int    `yaml:"pids_limit"`
		Grace   string `yaml:"stop_grace_period"`
		Cgroup  string
		Profile []string `yaml:"profiles"`
	}
	var c struct {
		Services map[string]service
		Volumes  map[string]any
	}
	dec := yaml.NewDecoder(strings.NewReader(deployFile(t, "compose.yaml")))
	dec.KnownFields(true) // what we do not know we have not thought about
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	v, ok := c.Services["validator"]
	if !ok || !slices.Equal(v.Options, []string{"seccomp=unconfined"}) || !slices.Equal(v.CapDrop, []string{"ALL"}) || len(v.CapAdd) > 0 ||
		v.User != "1000" || !v.Only || v.Memory == "" || v.Pids == 0 || len(v.Profile) > 0 {
		t.Errorf("the validator has more than the one option: %+v", v)
	}
	g := c.Services["validator-gvisor"]
	if g.Extends.Service != "validator" || !slices.Equal(g.CapAdd, []string{"SYS_ADMIN"}) || g.Cgroup != "private" || len(g.Profile) == 0 {
		t.Errorf("the gVisor variant: %+v", g)
	}
	for name, s := range c.Services {
		for _, m := range s.Volumes {
			src, _, _ := strings.Cut(m, ":")
			if _, named := c.Volumes[src]; !named && src != "/sys/fs/cgroup" && !strings.HasPrefix(src, "${AGON_WALLETS") {
				t.Errorf("%s mounts %s", name, m)
			}
		}
		if s.Build.Dockerfile != "" {
			if _, err := os.Stat(filepath.Join("../../deploy", s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestUnit(t *testing.T) {
	// Of systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.kill(5) and
	// systemd.resource-control(5): a misspelt key is ignored there with a warning.
	known := map[string]string{
		"[Unit]": "Description Documentation Wants After Requires",
		"[Service]": "Type ExecStartPre ExecStart Environment EnvironmentFile StateDirectory CacheDirectory KillMode TimeoutStartSec TimeoutStopSec " +
			"Restart RestartSec Delegate LimitNOFILE TasksMax ProtectClock ProtectKernelModules ProtectKernelLogs RestrictRealtime LockPersonality " +
			"ProtectHome NoNewPrivileges User Group",
		"[Install]": "WantedBy",
	}
	section, seen := "", map[string]string{}
	for l := range strings.Lines(deployFile(t, "agon-validator.service")) {
		l = strings.TrimSpace(l)
		if l == "" {
			continue
		}
		if strings.HasPrefix(l, "[") {
			if section = l; known[l] == "" {
				t.Errorf("section %s", l)
			}
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		if !ok || value == "" || !slices.Contains(strings.Fields(known[section]), key) {
			t.Errorf("%s in %s", l, section)
		}
		seen[key] = value
	}
	for key, want := range map[string]string{"Delegate": "yes", "StateDirectory": "agon", "ExecStart": "/usr/local/bin/agon validator", "WantedBy": "multi-user.target"} {
		if seen[key] != want {
			t.Errorf("%s=%s, want %s", key, seen[key], want)
		}
	}
}
