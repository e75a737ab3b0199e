// Package chart checks deploy/chart as `helm template` and a server of Kubernetes
// would. It is a module of its own: helm stays out of agon's dependencies.
package chart

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

const dir = "../../deploy/chart"

// versions are the API versions that the chart says it is for.
var versions = []string{"v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0"}

// served are the groups of each of them that the chart may use: all are stable since
// 1.25. What operators bring is named apart.
var served = []string{"v1", "apps/v1", "autoscaling/v2", "networking.k8s.io/v1", "policy/v1"}

var brought = []string{"keda.sh/v1alpha1", "monitoring.coreos.com/v1"}

// installs are what people install, with what must come of it.
var installs = map[string]struct {
	values string
	kinds  []string
	peers  string // the address of the first server, as the others know it; "": of none
}{
	"as it comes": {"", []string{"ServiceAccount", "Service", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}, ""},
	"several servers with TLS": {`
tls: {caSecret: ca, mutual: true}
server: {replicas: 3, tlsSecret: server, store: {existingSecret: db}, persistence: {existingClaim: shared}}
`, []string{"ServiceAccount", "Service", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}, "https://arena-server-0.arena-server-peers.agon.svc:8900"},
	"several servers without": {`
server: {replicas: 2, port: 9000, store: {existingSecret: db}, persistence: {existingClaim: shared}}
`, []string{"ServiceAccount", "Service", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}, "http://arena-server-0.arena-server-peers.agon.svc:9000"},
	"everything": {`
image: {repository: registry.example/agon, tag: "1"}
imagePullSecrets: [{name: pull}]
server:
  arena: "kind = \"coding\"\n"
  store: {existingSecret: db}
  blobs: {url: "s3://agon/arena?endpoint=https://s3.example", existingSecret: s3}
  metrics: {existingSecret: metrics}
  persistence: {storageClass: fast}
  service: {type: LoadBalancer, annotations: {a: b}}
  nodeSelector: {disk: ssd}
  podAnnotations: {a: b}
  env: [{name: AGON_TRACES, value: "http://otel:4318"}]
gateway: {enabled: true, tlsSecret: tls, llm: {baseURL: "https://llm.example/v1", model: m, existingSecret: llm}}
validators:
  enabled: true
  arenas: [one, two]
  wallet: {existingSecret: wallet}
  autoscaling: {by: keda, min: 0, max: 5}
  tolerations: [{key: boxes, operator: Exists}]
networkPolicy: {from: [{namespaceSelector: {}}], to: [{podSelector: {matchLabels: {app: postgres}}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
`, []string{
		"ServiceAccount", "ConfigMap", "Service", "Service", "StatefulSet", "Service", "StatefulSet", "Deployment", "ScaledObject",
		"PodDisruptionBudget", "PodDisruptionBudget", "PodDisruptionBudget", "NetworkPolicy", "NetworkPolicy", "NetworkPolicy", "ServiceMonitor", "PrometheusRule",
	}, "http://arena-server-0.arena-server-peers.agon.svc:8900"},
	"validators alone, by CPU, in gVisor": {`
server: {enabled: false}
validators: {enabled: true, url: "https://arena.example", isolation: gvisor, wallet: {existingSecret: wallet}, autoscaling: {by: hpa}}
`, []string{"ServiceAccount", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"}, ""},
	"TLS on every hop": {`
tls: {caSecret: ca, mutual: true}
server: {tlsSecret: server, metrics: {existingSecret: metrics}}
gateway: {enabled: true, tlsSecret: gateway}
validators: {enabled: true, tlsSecret: val, keyAgent: "tls://agent.keys:8902"}
networkPolicy: {enabled: false}
podDisruptionBudget: {enabled: false}
serviceMonitor: {enabled: true, alerts: false}
`, []string{"ServiceAccount", "Service", "Service", "StatefulSet", "Service", "StatefulSet", "Deployment", "ServiceMonitor"}, ""},
	"without policies": {`
networkPolicy: {enabled: false}
podDisruptionBudget: {enabled: false}
`, []string{"ServiceAccount", "Service", "Service", "StatefulSet"}, ""},
}

// render is `helm template --kube-version`.
func render(t *testing.T, version, text string) ([]byte, error) {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	i := action.NewInstall(&action.Configuration{})
	i.DryRun, i.ClientOnly, i.ReleaseName, i.Namespace, i.KubeVersion, i.APIVersions = true, true, "arena", "agon", v, append(slices.Clone(served), brought...)
	r, err := i.Run(c, values)
	if err != nil {
		return nil, err
	}
	return []byte(r.Manifest), nil
}

// TestTemplates renders each install for each version, and reads the result as a
// server does that refuses unknown fields.
func TestTemplates(t *testing.T) {
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for name, in := range installs {
		for _, version := range versions {
			t.Run(name+" "+version, func(t *testing.T) {
				text, err := render(t, version, in.values)
				if err != nil {
					t.Fatal(err)
				}
				var kinds []string
				var objects []runtime.Object
				docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
				for {
					doc, err := docs.Read()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if len(bytes.TrimSpace(stripped(doc))) == 0 {
						continue
					}
					var head struct {
						APIVersion string `json:"apiVersion"`
						Kind       string `json:"kind"`
						Metadata   struct {
							Name   string            `json:"name"`
							Labels map[string]string `json:"labels"`
						} `json:"metadata"`
					}
					if err := yaml.Unmarshal(doc, &head); err != nil {
						t.Fatalf("%v in\n%s", err, doc)
					}
					kinds = append(kinds, head.Kind)
					for _, bad := range validation.IsDNS1035Label(head.Metadata.Name) {
						t.Errorf("%s %q: %s", head.Kind, head.Metadata.Name, bad)
					}
					for k, v := range head.Metadata.Labels {
						for _, bad := range append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...) {
							t.Errorf("%s: label %s=%s: %s", head.Kind, k, v, bad)
						}
					}
					if slices.Contains(brought, head.APIVersion) {
						continue
					}
					if !slices.Contains(served, head.APIVersion) {
						t.Errorf("%s is of %s, which %s may not serve", head.Kind, head.APIVersion, version)
					}
					o, _, err := strict.Decode(doc, nil, nil)
					if err != nil {
						t.Fatalf("%v in\n%s", err, doc)
					}
					check(t, o)
					objects = append(objects, o)
				}
				if advertised(objects) != in.peers {
					t.Errorf("servers reach each other at %q, want %q", advertised(objects), in.peers)
				}
				want := slices.Sorted(slices.Values(in.kinds))
				if got := slices.Sorted(slices.Values(kinds)); !slices.Equal(got, want) {
					t.Errorf("rendered %v, want %v", got, want)
				}
			})
		}
	}
}

// advertised is the address at which the first server of a manifest is reached by the others, if
// it says one and there is a headless service that makes the name.
func advertised(list []runtime.Object) string {
	for _, o := range list {
		set, ok := o.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		for _, e := range set.Spec.Template.Spec.Containers[0].Env {
			if e.Name != "AGON_ADVERTISE" {
				continue
			}
			at := strings.ReplaceAll(e.Value, "$(POD_NAME)", set.Name+"-0")
			for _, o := range list {
				s, ok := o.(*corev1.Service)
				if ok && s.Name == set.Spec.ServiceName && s.Spec.ClusterIP == corev1.ClusterIPNone && s.Spec.PublishNotReadyAddresses {
					return at
				}
			}
			return at + ", which no service makes"
		}
	}
	return ""
}

// check holds what every pod of the chart promises.
func check(t *testing.T, o runtime.Object) {
	t.Helper()
	var pod corev1.PodTemplateSpec
	var selector map[string]string
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		pod, selector = o.Spec.Template, o.Spec.Selector.MatchLabels
		if *o.Spec.Replicas != 1 && len(o.Spec.VolumeClaimTemplates) > 0 {
			t.Errorf("%s: %d servers have a volume each, not one", o.Name, *o.Spec.Replicas)
		}
	case *appsv1.Deployment:
		pod, selector = o.Spec.Template, o.Spec.Selector.MatchLabels
	default:
		return
	}
	for k, v := range selector {
		if pod.Labels[k] != v {
			t.Errorf("the pods lack the label %s=%s of their selector", k, v)
		}
	}
	if a := pod.Spec.AutomountServiceAccountToken; a == nil || *a {
		t.Error("the pods get a token of the cluster")
	}
	volumes := map[string]bool{"data": true} // a claim of a StatefulSet
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if v.HostPath != nil {
			t.Errorf("volume %s is a path of the host", v.Name)
		}
	}
	for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		s := c.SecurityContext
		if s == nil || s.SeccompProfile == nil || (s.Privileged != nil && *s.Privileged) {
			t.Errorf("container %s: privileged, or without a profile", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts %s, which is not a volume", c.Name, m.Name)
			}
		}
		for _, e := range c.Env {
			if strings.HasPrefix(e.Value, "/tls/") || e.Name == "AGON_KEY_AGENT" { // a file's name, an address
				continue
			}
			if (strings.Contains(e.Name, "KEY") || strings.Contains(e.Name, "SECRET") || e.Name == "AGON_STORE") && e.Name != "HOTKEY" && e.Value != "" {
				t.Errorf("container %s: the secret %s stands in the manifest", c.Name, e.Name)
			}
		}
	}
	if h := pod.Spec; h.HostNetwork || h.HostPID || h.HostIPC {
		t.Error("the pods share namespaces of the host")
	}
}

func stripped(doc []byte) []byte {
	var out [][]byte
	for _, l := range bytes.Split(doc, []byte("\n")) {
		if !bytes.HasPrefix(l, []byte("#")) && !bytes.HasPrefix(l, []byte("---")) {
			out = append(out, l)
		}
	}
	return bytes.Join(out, []byte("\n"))
}

// TestRefused are values that are a mistake, and what the error must name.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"validators: {enabled: true}":     "validators.wallet.existingSecret",
		"serviceMonitor: {enabled: true}": "server.metrics.existingSecret",
		"validators: {isolation: none}":   "isolation",
		"validators: {enabled: true, wallet: {existingSecret: w}, autoscaling: {by: sometimes}}": "by",
		"server: {blobs: {url: ftp://x}}":                    "url",
		"server: {registration: open}":                       "registration",
		"server: {replicas: 2}":                              "server.store.existingSecret",
		"server: {replicas: 2, store: {existingSecret: db}}": "server.persistence.existingClaim",
		"server: {replicas: 2, tlsSecret: tls, store: {existingSecret: db}, persistence: {existingClaim: shared}}": "tls.caSecret",
	} {
		if _, err := render(t, versions[0], text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", text, err, want)
		}
	}
	if _, err := render(t, "v1.29.0", ""); err == nil {
		t.Error("1.29 was taken")
	}
}

func TestLint(t *testing.T) {
	r := lint.AllWithKubeVersion(dir, nil, "agon", nil)
	for _, m := range r.Messages {
		if m.Severity >= support.WarningSev {
			t.Errorf("%v", m)
		}
	}
}

// TestPrint writes what the chart gives to the file that CHART_OUT names.
func TestPrint(t *testing.T) {
	to := os.Getenv("CHART_OUT")
	if to == "" {
		t.Skip("CHART_OUT names no file")
	}
	text, err := render(t, versions[len(versions)-1], installs["everything"].values)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(fmt.Errorf("print the chart: %w", err))
	}
}
