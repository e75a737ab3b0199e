package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// arenaFile is what is played: bugs in small repositories.
const arenaFile = `id = "kube"
kind = "coding"
title = "Fix the bug, in pods"
netuid = 1
licence = "MIT"
incentive = "paired"
sets = ["small"]
submissions_per_coldkey = 5
[incentive_numbers]
validators = 1
agree = 1
max_pairs = 20
[policy]
models = ["*"]
[policy.agent]
wall_ms = 60000
memory_bytes = 1073741824
pids = 128
disk_bytes = 268435456
[policy.budget]
micros = 2000000
calls = 200
`

// serverValues are two servers with TLS over one database and one volume.
const serverValues = `
image: {repository: agon.test/agon, tag: kube, pullPolicy: Never}
tls: {caSecret: agon-ca, mutual: true}
server:
  replicas: 2
  tlsSecret: agon-tls
  arena: |
%s
  store: {existingSecret: agon-db}
  persistence: {existingClaim: agon-data}
  resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 2Gi}}
networkPolicy: {to: [{ipBlock: {cidr: %s/32}}]}
`

// validatorValues are validators in a namespace of their own.
const validatorValues = `
image: {repository: agon.test/agon, tag: kube, pullPolicy: Never}
tls: {caSecret: agon-ca}
server: {enabled: false}
validators:
  enabled: true
  url: ` + serverURL + `
  boxes: 1
  isolation: %s
  wallet: {existingSecret: agon-wallet, name: val, hotkey: default}
  cache: {size: 5Gi}
  resources: {requests: {cpu: 10m, memory: 64Mi, ephemeral-storage: null}, limits: {memory: 4Gi}}
networkPolicy: {to: [{podSelector: {}}]}
`

// serverURL is where everybody reaches the servers.
const serverURL = "https://arena-server.agon.svc:8900"

// TestPlay installs the chart, plays in pods while validators come and go and servers are
// rolled, and looks at what came of it.
func TestPlay(t *testing.T) {
	dir := need(t, "KUBE_DIR")
	c := up(t, dir)
	a := &arena{cluster: c, agon: need(t, "KUBE_AGON")}
	t.Log("the node is ready")
	a.database()
	a.volume()
	a.authority("agon", "boxes")
	a.install("arena", "agon", fmt.Sprintf(serverValues, indented(arenaFile), node))
	c.kubectl("-n", "agon", "rollout", "status", "statefulset/arena-server", "--timeout=10m")
	a.url = serverURL
	a.known("arena-server.agon.svc", c.service("arena-server", "agon"))
	a.each()
	t.Log("two servers answer, each by its name")

	a.operator = filepath.Join(dir, "volume", "wallets")
	a.wallet("val", true)
	c.kubectl("label", "namespace", "boxes", "pod-security.kubernetes.io/enforce=privileged")
	c.kubectl("-n", "boxes", "create", "secret", "generic", "agon-wallet", "--from-file=hotkey="+filepath.Join(a.wallets(), "val", "hotkeys", "default"),
		"--from-file=coldkeypub.txt="+filepath.Join(a.wallets(), "val", "coldkeypub.txt"))

	rootless := fmt.Sprintf(validatorValues, "rootless")
	a.install("play", "boxes", rootless, "--set", "validators.replicas=1")
	a.refusedByPodSecurity()
	a.submit("nop", "repair")
	a.until("the first run is scored", func(o overview) bool { return o.Runs.Scored > 0 })
	t.Log("one validator plays")

	c.kubectl("-n", "boxes", "scale", "deployment/play-validator", "--replicas=3")
	c.kubectl("-n", "boxes", "rollout", "status", "deployment/play-validator", "--timeout=10m")
	a.submit("llm")
	was := a.look()
	a.rolled()
	a.each()
	t.Logf("three validators play; servers were rolled: %d runs scored before, %d after", was.Runs.Scored, a.look().Runs.Scored)
	a.submit("repair-again")
	a.decided()

	c.kubectl("-n", "boxes", "scale", "deployment/play-validator", "--replicas=0")
	c.kubectl("-n", "boxes", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=validator", "--timeout=5m")
	t.Log("no validator is left")
	a.submit("waits")
	a.install("play", "boxes", fmt.Sprintf(validatorValues, "gvisor"), "--set", "validators.replicas=1")
	a.decided()
	a.accepted()
	a.covered()
	a.scaled()
	end := a.look()
	t.Logf("at the end: %s", end.raw)
	if end.Runs.Failed != 0 || end.Runs.Scored == 0 {
		t.Errorf("runs: %+v, want none failed", end.Runs)
	}
}

// arena is what stands in the cluster.
type arena struct {
	*cluster
	agon     string
	url      string // of the servers
	operator string // wallets of the servers' volume
	names    int
	client   *http.Client // that trusts the servers' authority
	waiting  sync.WaitGroup
	mu       sync.Mutex // guards failed
	failed   []error
}

func indented(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

// database starts PostgreSQL on the node, outside of the cluster, and tells the cluster where.
func (a *arena) database() {
	dir := filepath.Join(a.dir, "postgres")
	as := []string{"runuser", "-u", "postgres", "--"}
	bin := need(a.t, "KUBE_POSTGRES")
	a.run("install", "-d", "-o", "postgres", "-m", "700", dir)
	run := func(args ...string) { a.t.Helper(); a.run(append(as, args...)...) }
	run(bin+"/initdb", "-D", dir+"/data", "-U", "agon", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
	hba, err := os.OpenFile(dir+"/data/pg_hba.conf", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(hba, "host all all %s trust\n", pods); err != nil {
		a.t.Fatal(err)
	}
	if err := hba.Close(); err != nil {
		a.t.Fatal(err)
	}
	run(bin+"/pg_ctl", "-D", dir+"/data", "-l", dir+"/log", "-w", "start", "-o", "-k "+dir+" -c listen_addresses="+node)
	a.t.Cleanup(func() { run(bin+"/pg_ctl", "-D", dir+"/data", "-m", "fast", "stop") })
	run(bin+"/createdb", "-h", dir, "-U", "agon", "agon")
	a.kubectl("create", "namespace", "agon")
	// What Kubernetes asks of pods at its strictest.
	a.kubectl("label", "namespace", "agon", "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
	a.kubectl("-n", "agon", "create", "secret", "generic", "agon-db", "--from-literal=url=postgres://agon@"+node+":5432/agon")
}

// volume makes the claim that the servers share: a directory of the node.
func (a *arena) volume() {
	dir := filepath.Join(a.dir, "volume")
	if err := os.Mkdir(dir, 0o700); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Chown(dir, 1000, 1000); err != nil {
		a.t.Fatal(err)
	}
	a.apply(fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: agon-data}
spec: {capacity: {storage: 20Gi}, accessModes: [ReadWriteMany], storageClassName: "", hostPath: {path: %s}, claimRef: {name: agon-data, namespace: agon}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: agon-data, namespace: agon}
spec: {accessModes: [ReadWriteMany], storageClassName: "", resources: {requests: {storage: 20Gi}}}
`, dir))
}

// install installs or upgrades a release of the chart.
func (a *arena) install(release, namespace, values string, flags ...string) {
	a.t.Helper()
	args := []string{need(a.t, "KUBE_HELM"), "upgrade", "--install", release, need(a.t, "KUBE_CHART"), "-n", namespace, "-f", a.write(release+".yaml", values)}
	a.run(append(args, flags...)...)
}

// service is the address of a service.
func (c *cluster) service(name, namespace string) string {
	c.t.Helper()
	s, err := c.api.CoreV1().Services(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return s.Spec.ClusterIP
}

func (a *arena) wallets() string { return filepath.Join(a.dir, "wallets") }

// wallet makes a wallet and registers its hotkey.
func (a *arena) wallet(name string, validator bool) {
	a.t.Helper()
	var key struct{ SS58, Coldkey string }
	out := a.run(a.agon, "key", "new", "--wallet.name", name, "--wallet.path", a.wallets(), "-o", "json")
	if err := json.Unmarshal([]byte(out), &key); err != nil {
		a.t.Fatalf("%v in %s", err, out)
	}
	args := []string{a.agon, "ledger", "register", "--url", a.url, "--netuid", "1", "--hotkey", key.SS58, "--coldkey", key.Coldkey, "--wallet.name", "operator", "--wallet.path", a.operator}
	if validator {
		args = append(args, "--validator")
	}
	a.run(args...)
}

// submit enters samples, each by another miner. decided waits for them.
func (a *arena) submit(names ...string) {
	a.t.Helper()
	for _, name := range names {
		a.names++
		dir := filepath.Join(a.dir, fmt.Sprint("agent-", a.names))
		if err := os.Mkdir(dir, 0o700); err != nil {
			a.t.Fatal(err)
		}
		sample := name
		if name == "repair-again" || name == "waits" {
			sample = "nop"
		}
		b, err := os.ReadFile(filepath.Join(need(a.t, "KUBE_SAMPLES"), sample, "agent.py"))
		if err != nil {
			a.t.Fatal(err)
		}
		b = append(b, fmt.Sprintf("\n# entry %d\n", a.names)...)
		if err := os.WriteFile(filepath.Join(dir, "agent.py"), b, 0o600); err != nil {
			a.t.Fatal(err)
		}
		miner := fmt.Sprint("miner-", a.names)
		a.wallet(miner, false)
		args := []string{a.agon, "submission", "submit", filepath.Join(dir, "agent.py"), "--url", a.url, "--arena", "kube", "--name", name, "--wallet.name", miner, "--wallet.path", a.wallets(), "-o", "json"}
		a.run(args...)
		a.waiting.Go(func() { // the same bytes: the same submission
			if _, err := a.try("", append(args, "--wait=30m")...); err != nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.failed = append(a.failed, err)
			}
		})
	}
}

// decided waits until all submissions are.
func (a *arena) decided() {
	a.t.Helper()
	a.waiting.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, err := range a.failed {
		a.t.Error(err)
	}
}

// overview is GET /v1/overview.
type overview struct {
	Runs struct{ Scored, Failed int }
	raw  string
}

func (a *arena) read() (o overview, err error) {
	r, err := a.client.Get(a.url + "/v1/overview")
	if err != nil {
		return o, err
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	_ = r.Body.Close()
	if err != nil || r.StatusCode != http.StatusOK {
		return o, fmt.Errorf("%s: %s: %w", r.Status, b, err)
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return o, err
	}
	var runs struct {
		Runs json.RawMessage `json:"runs"`
	}
	if err := json.Unmarshal(b, &runs); err != nil {
		return o, err
	}
	o.raw = string(runs.Runs)
	return o, nil
}

func (a *arena) look() overview {
	a.t.Helper()
	o, err := a.read()
	if err != nil {
		a.t.Fatal(err)
	}
	return o
}

// until waits for what the overview says.
func (a *arena) until(what string, ok func(overview) bool) {
	a.t.Helper()
	a.wait(what, 20*time.Minute, func() error {
		o, err := a.read()
		if err == nil && !ok(o) {
			err = fmt.Errorf("runs are %s", o.raw)
		}
		return err
	})
}

// refusedByPodSecurity is what docs/kubernetes.md says: pods of validators do not pass the
// standard that those of servers pass.
func (a *arena) refusedByPodSecurity() {
	a.t.Helper()
	out := a.run(need(a.t, "KUBE_HELM"), "template", "play", need(a.t, "KUBE_CHART"), "--kube-version", need(a.t, "KUBE_VERSION"), "-f", filepath.Join(a.dir, "play.yaml"), "-n", "agon", "--show-only", "templates/validators.yaml")
	cmd := exec.Command(a.control, "kubectl", "apply", "-n", "agon", "--dry-run=server", "-f", "-")
	cmd.Stdin, cmd.Env = strings.NewReader(out), append(os.Environ(), "KUBECONFIG="+filepath.Join(a.dir, "admin.conf"))
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "would violate PodSecurity") {
		a.t.Errorf("validators in a restricted namespace: %v: %s", err, said)
	}
}

// accepted are other installs of the chart, checked by the API server and its admission.
func (a *arena) accepted() {
	a.t.Helper()
	for name, values := range map[string]string{
		"as it comes": "",
		"by CPU":      "server: {enabled: false}\nvalidators: {enabled: true, url: 'https://arena.example', wallet: {existingSecret: w}, autoscaling: {by: hpa}}\n",
		"a gateway":   "gateway: {enabled: true, llm: {baseURL: 'https://llm.example/v1', model: m, existingSecret: llm}}\nserver: {metrics: {existingSecret: m}}\n",
	} {
		out := a.run(need(a.t, "KUBE_HELM"), "template", "other", need(a.t, "KUBE_CHART"), "--kube-version", need(a.t, "KUBE_VERSION"), "-n", "boxes", "-f", a.write("other.yaml", values))
		if _, err := a.try(out, a.control, "kubectl", "apply", "-n", "boxes", "--dry-run=server", "-f", "-"); err != nil {
			a.t.Errorf("%s: %v", name, err)
		}
	}
	for _, namespace := range []string{"agon", "boxes"} {
		list, err := a.api.PolicyV1().PodDisruptionBudgets(namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			a.t.Fatal(err)
		}
		for _, b := range list.Items {
			a.t.Logf("budget %s: %d of %d pods healthy, %d may go", b.Name, b.Status.CurrentHealthy, b.Status.ExpectedPods, b.Status.DisruptionsAllowed)
			if b.Status.ObservedGeneration == 0 || b.Status.ExpectedPods == 0 {
				a.t.Errorf("budget %s covers no pod: %+v", b.Name, b.Status)
			}
		}
	}
}
