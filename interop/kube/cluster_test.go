// Package kube installs deploy/chart on a real Kubernetes and plays in its pods: API server,
// scheduler, controllers, kube-proxy and kubelet of a release, etcd and containerd of the
// system. It is a module of its own: nothing of this is a dependency of agon. scripts/kube.sh
// runs it in its own mount, network and process namespaces.
package kube

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	node     = "10.97.0.1" // this machine, inside of the test's network
	pods     = "10.88.0.0/16"
	services = "10.96.0.0/16"
)

// need is the value of a variable that scripts/kube.sh sets.
func need(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set: make kube runs this test", name)
	}
	return v
}

// cluster is a control plane and one node.
type cluster struct {
	t       *testing.T
	dir     string
	control string
	api     *kubernetes.Clientset // of the administrator
	ca      string                // the authority that agon trusts; "": none
}

// start starts a program that runs until the test ends, its output in NAME.log.
func (c *cluster) start(name string, args ...string) {
	c.t.Helper()
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("start %s: %v", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c.t.Cleanup(func() {
		select {
		case err := <-ended:
			c.t.Errorf("%s ended by itself: %v\n%s", name, err, tail(log.Name()))
		default:
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				_ = cmd.Process.Kill()
				<-ended
			}
		}
		_ = log.Close()
	})
}

// tail is the end of a log.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// wait waits until ok says that something is there.
func (c *cluster) wait(what string, most time.Duration, ok func() error) {
	c.t.Helper()
	end := time.Now().Add(most)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s is not there after %s: %v", what, most, err)
		}
		time.Sleep(50 * time.Millisecond) // a process that starts sends no word
	}
}

func (c *cluster) write(name, content string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// run runs a command and returns its output.
func (c *cluster) run(args ...string) string {
	c.t.Helper()
	out, err := c.try("", args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// try is run with standard input, and gives the error back.
func (c *cluster) try(input string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "admin.conf"), "HOME="+c.dir, "AGON_CA="+c.ca)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, tailOf(errs.String()), tailOf(out.String()))
	}
	return out.String(), nil
}

func tailOf(s string) string { return s[max(0, len(s)-2000):] }

// kubectl runs it as the administrator.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.run(append([]string{c.control, "kubectl"}, args...)...)
}

// apply makes what a manifest says.
func (c *cluster) apply(manifest string, flags ...string) {
	c.t.Helper()
	if _, err := c.try(manifest, append([]string{c.control, "kubectl", "apply", "-f", "-"}, flags...)...); err != nil {
		c.t.Fatal(err)
	}
}

// who are the parts of the cluster by the token that each shows: user and groups, which have
// the rights that Kubernetes gives them at its start.
var who = map[string]string{
	"admin":                   "admin,0,system:masters",
	"kube-controller-manager": "system:kube-controller-manager,1",
	"kube-scheduler":          "system:kube-scheduler,2",
	"kube-proxy":              "system:kube-proxy,3",
	"kubelet":                 "system:node:node,4,system:nodes",
}

// config writes the file by which a part reaches the API server.
func (c *cluster) config(part, token string) string {
	return c.write(part+".conf", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, node, token))
}

// up starts everything and waits until the node is ready.
func up(t *testing.T, dir string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, control: need(t, "KUBE_CONTROL")}
	configs := map[string]string{}
	var tokens strings.Builder
	for part, is := range who {
		token := rand.Text()
		fields := strings.SplitN(is, ",", 3)
		fmt.Fprintf(&tokens, "%s,%s,%s", token, fields[0], fields[1])
		if len(fields) > 2 {
			fmt.Fprintf(&tokens, ",%q", fields[2])
		}
		tokens.WriteByte('\n')
		configs[part] = c.config(part, token)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", configs["admin"])
	if err != nil {
		t.Fatal(err)
	}
	if c.api, err = kubernetes.NewForConfig(rest); err != nil {
		t.Fatal(err)
	}

	c.containerd()
	c.start("etcd", "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379")
	c.wait("etcd", time.Minute, func() error { return answers("http://127.0.0.1:2379/health") })
	private, public := c.key()
	c.start("kube-apiserver", c.control, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--service-cluster-ip-range="+services,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--token-auth-file="+c.write("tokens.csv", tokens.String()),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+public, "--service-account-signing-key-file="+private,
		"--bind-address="+node, "--advertise-address="+node, "--cert-dir="+filepath.Join(dir, "apiserver"))
	c.wait("the API server", 5*time.Minute, func() error { return c.api.RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error() })
	c.start("kube-controller-manager", c.control, "kube-controller-manager", "--kubeconfig="+configs["kube-controller-manager"], "--leader-elect=false",
		"--use-service-account-credentials=true", "--horizontal-pod-autoscaler-sync-period=2s", "--service-account-private-key-file="+private, "--cert-dir="+filepath.Join(dir, "manager"))
	c.start("kube-scheduler", c.control, "kube-scheduler", "--kubeconfig="+configs["kube-scheduler"], "--leader-elect=false", "--cert-dir="+filepath.Join(dir, "scheduler"))
	c.start("kube-proxy", c.control, "kube-proxy", "--config="+c.write("proxy.yaml", fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: %s}
hostnameOverride: node
clusterCIDR: %s
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, configs["kube-proxy"], pods)))
	c.names()
	c.start("kubelet", c.control, "kubelet", "--kubeconfig="+configs["kubelet"], "--hostname-override=node", "--node-ip="+node,
		"--root-dir=/var/lib/kubelet", "--cert-dir="+filepath.Join(dir, "kubelet-certs"), "--config="+c.write("kubelet.yaml", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: %s
clusterDNS: ["%s"]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "1%%"}
makeIPTablesUtilChains: false
resolvConf: ""
`, node, need(t, "KUBE_CGROUP"), node)))
	c.wait("the node", 5*time.Minute, func() error {
		_, err := c.try("", c.control, "kubectl", "wait", "--for=condition=Ready", "node/node", "--timeout=60s")
		return err
	})
	return c
}

func answers(url string) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// key makes the key that signs tokens of service accounts: its files.
func (c *cluster) key() (private, public string) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		c.t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))),
		c.write("sa.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})))
}

// containerd starts it with Debian's network plugins: each pod has a cable to this machine.
func (c *cluster) containerd() {
	cni := filepath.Join(c.dir, "cni")
	if err := os.Mkdir(cni, 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.write("cni/10-agon.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "agon", "plugins": [
	{"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`, pods))
	c.start("containerd", "containerd", "--config", c.write("containerd.toml", fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = %q
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
`, filepath.Join(c.dir, "containerd"), pauseName, cni)))
	ctr := func(args ...string) (string, error) {
		return c.try("", append([]string{"ctr", "--address", "/run/containerd/containerd.sock", "-n", "k8s.io"}, args...)...)
	}
	c.wait("containerd", time.Minute, func() error { _, err := ctr("images", "list"); return err })
	for _, image := range []string{pause(c.t, c.dir), need(c.t, "KUBE_IMAGE")} {
		if _, err := ctr("images", "import", image); err != nil {
			c.t.Fatal(err)
		}
	}
}
