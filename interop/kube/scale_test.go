package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaledValues are validators that something scales; they have no wallet, so that none begins.
const scaledValues = `
image: {repository: agon.test/agon, tag: kube, pullPolicy: Never}
server: {enabled: false}
validators:
  enabled: true
  url: ` + serverURL + `
  wallet: {existingSecret: none}
  resources: {requests: {cpu: 1m, memory: 1Mi, ephemeral-storage: null}, limits: {memory: 1Gi}}
  autoscaling: {by: %s, min: 2, max: 4}
`

// scaled makes the objects by which validators are scaled. Nothing here measures processors, and no
// KEDA runs: the controller of the cluster is to find the Deployment, raise it to the least number,
// and miss the measurements alone; KEDA's object is to be kept as it was written.
func (a *arena) scaled() {
	a.t.Helper()
	ctx := context.Background()
	a.kubectl("create", "namespace", "auto")
	a.install("auto", "auto", fmt.Sprintf(scaledValues, "hpa"))
	var conditions map[string]string
	a.wait("what the autoscaler says", 2*time.Minute, func() error {
		h, err := a.api.AutoscalingV2().HorizontalPodAutoscalers("auto").Get(ctx, "auto-validator", metav1.GetOptions{})
		if err != nil {
			return err
		}
		d, err := a.api.AppsV1().Deployments("auto").Get(ctx, "auto-validator", metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions = map[string]string{}
		for _, c := range h.Status.Conditions {
			conditions[string(c.Type)] = string(c.Status) + " " + c.Reason
		}
		if got := conditions[string(autoscaling.ScalingActive)]; got != "False FailedGetResourceMetric" || *d.Spec.Replicas != 2 {
			return fmt.Errorf("%d replicas, conditions %v", *d.Spec.Replicas, conditions)
		}
		return nil
	})
	a.t.Logf("the autoscaler raised one validator to two, and says %v", conditions)

	a.kubectl("create", "-f", need(a.t, "KUBE_KEDA"))
	a.kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=1m")
	values := fmt.Sprintf(scaledValues, "keda")
	manifest := a.run(need(a.t, "KUBE_HELM"), "template", "auto", need(a.t, "KUBE_CHART"), "--kube-version", need(a.t, "KUBE_VERSION"), "-n", "auto", "-f", a.write("keda.yaml", values))
	if _, err := a.try(manifest, a.control, "kubectl", "apply", "-n", "auto", "--validate=strict", "--dry-run=server", "-f", "-"); err != nil {
		a.t.Errorf("KEDA's object: %v", err)
	}
	a.install("auto", "auto", values)
	var got struct{ Spec map[string]any }
	if err := json.Unmarshal([]byte(a.kubectl("-n", "auto", "get", "scaledobject", "auto-validator", "-o", "json")), &got); err != nil {
		a.t.Fatal(err)
	}
	want := map[string]any{
		"scaleTargetRef": map[string]any{"name": "auto-validator"}, "minReplicaCount": 2.0, "maxReplicaCount": 4.0, "cooldownPeriod": 600.0,
		"triggers": []any{map[string]any{"type": "prometheus", "metadata": map[string]any{
			"serverAddress": "http://prometheus-operated.monitoring:9090", "query": "sum(max by (arena) (agon_runs_queued))", "threshold": "4",
		}}},
	}
	if !reflect.DeepEqual(got.Spec, want) {
		a.t.Errorf("KEDA's object is %v, want %v", got.Spec, want)
	}
	list, err := a.api.AutoscalingV2().HorizontalPodAutoscalers("auto").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		a.t.Errorf("%d autoscalers beside KEDA's, %v", len(list.Items), err)
	}
	a.kubectl("delete", "namespace", "auto", "--wait=false")
}

// covered: each NetworkPolicy that stands is about pods that are there.
func (a *arena) covered() {
	a.t.Helper()
	ctx, seen := context.Background(), 0
	for _, namespace := range []string{"agon", "boxes"} {
		list, err := a.api.NetworkingV1().NetworkPolicies(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			a.t.Fatal(err)
		}
		for _, p := range list.Items {
			of, err := a.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&p.Spec.PodSelector)})
			if err != nil {
				a.t.Fatal(err)
			}
			a.t.Logf("policy %s/%s is about %d pods: %d rules in, %d out", namespace, p.Name, len(of.Items), len(p.Spec.Ingress), len(p.Spec.Egress))
			if seen++; len(of.Items) == 0 {
				a.t.Errorf("policy %s is about no pod", p.Name)
			}
		}
	}
	if seen != 2 {
		a.t.Errorf("%d policies, want one of servers and one of validators", seen)
	}
}
