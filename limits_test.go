package agon

import (
	"strings"
	"testing"
)

func gpu(n byte, model string, gib int64) GPU {
	return GPU{ID: strings.Repeat(string('0'+n), 32), Model: model, MemoryBytes: gib << 30, Driver: "570.1"}
}

func TestGPUNeed(t *testing.T) {
	list := []GPU{gpu(0, "NVIDIA A10", 24), gpu(1, "NVIDIA A100-SXM4-80GB", 80), gpu(2, "NVIDIA H100 80GB HBM3", 80), gpu(3, "NVIDIA A100-SXM4-80GB", 80)}
	for _, c := range []struct {
		need GPUNeed
		want string // ids of those chosen
	}{
		{GPUNeed{Count: 1}, "0"},
		{GPUNeed{Count: 1, MemoryBytes: 40 << 30}, "1"},
		{GPUNeed{Count: 2}, "13"}, // of one model
		{GPUNeed{Count: 3}, ""},
		{GPUNeed{Count: 1, Models: []string{"h100"}}, "2"},
		{GPUNeed{Count: 2, Models: []string{"H100"}}, ""},
		{GPUNeed{Count: 1, Models: []string{"A10"}}, "0"}, // not an A100
		{GPUNeed{Count: 1, Models: []string{"T4", "A100 80GB"}}, "1"},
		{GPUNeed{Count: 1, Models: []string{"A100 40GB"}}, ""},
	} {
		got := ""
		for _, g := range c.need.Choose(list) {
			got += g.ID[:1]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", &c.need, got, c.want)
		}
	}
	for field, n := range map[string]GPUNeed{"count": {}, "count 17": {Count: 17}, "memory_bytes": {Count: 1, MemoryBytes: -1}, "model": {Count: 1, Models: []string{"a%"}}, "17 models": {Count: 1, Models: make([]string, 17)}} {
		if err := n.Check(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%+v: %v", n, err)
		}
	}
	task := func(n *GPUNeed) TaskRef { return TaskRef{Key: "k", GPU: n} }
	n, err := NeedOf([]TaskRef{task(nil), task(&GPUNeed{Count: 1, Models: []string{"A", "B"}}), task(&GPUNeed{Count: 2, MemoryBytes: 5, Models: []string{"B"}})})
	if err != nil || n.Count != 2 || n.MemoryBytes != 5 || len(n.Models) != 1 || n.Models[0] != "B" {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := NeedOf([]TaskRef{task(nil)}); n != nil || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := NeedOf([]TaskRef{task(&GPUNeed{Count: 1, Models: []string{"A"}}), task(&GPUNeed{Count: 1, Models: []string{"B"}})}); err == nil {
		t.Error("two models for one run")
	}
}
