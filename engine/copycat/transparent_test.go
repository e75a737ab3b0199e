package copycat

import (
	"strings"
	"testing"
)

func TestOpacities(t *testing.T) {
	for _, c := range []struct {
		src  string
		want string // of the first place; "": transparent
		line int
	}{
		{"x = eval('1')\n", "eval", 1},
		{"y = 1\nf = exec\n", "exec", 2},
		{"run = [compile][0]\n", "compile", 1},
		{"def f(g=eval):\n    return g\n", "eval", 1},
		{"print(f\"{eval('1')}\")\n", "eval", 1},
		{"lambda: globals()\n", "globals", 1},
		{"try:\n    pass\nexcept ValueError as eval:\n    pass\n", "eval", 3},
		{"with open('x') as type:\n    pass\n", "type", 1},
		{"getattr(x, 'name')\n", "", 0},
		{"getattr(x, 'na' + 'me')\n", "getattr", 1},
		{"getattr(x, '__class__')\n", "__class__", 1},
		{"getattr(x, name)\n", "getattr", 1},
		{"g = getattr\n", "getattr", 1},
		{"getattr(*a)\n", "getattr", 1},
		{"hasattr(x, f'{n}')\n", "hasattr", 1},
		{"setattr(x, 'a', 1)\n", "setattr", 1},
		{"import importlib.util\n", "importlib", 1},
		{"import inspect as i\n", "inspect", 1},
		{"from importlib import import_module\n", "importlib", 1},
		{"import builtins\n", "builtins", 1},
		{"x.__class__\n", "__class__", 1},
		{"f.__globals__['x']\n", "__globals__", 1},
		{"__builtins__\n", "__builtins__", 1},
		{"if __name__ == '__main__':\n    pass\n", "", 0},
		{"from typing import get_type_hints\n", "get_type_hints", 1},
		{"import typing\ntyping.get_type_hints(f)\n", "get_type_hints", 2},
		{"from dataclasses import asdict as a\n", "asdict", 1},
		{"from dataclasses import dataclass, field\n", "", 0},
		{"row.fields\n", "", 0},
		{"import dataclasses as d\nd.fields(x)\n", "dataclasses.fields", 2},
		{"def f():\n    import sys as s\n    return s.modules['builtins']\n", "sys.modules", 3},
		{"from sys import modules\n", "sys.modules", 1},
		{"import sys\nsys.exit(1)\n", "", 0},
		{"import operator as op\nop.attrgetter('a')\n", "operator.attrgetter", 2},
		{"match x:\n    case 1:\n        pass\n", "match", 1},
		{"match = 1\nmatch.x\n", "", 0},
		{"a = 1\ndel a\n", "del", 2},
		{"def f():\n    global a\n    a = 1\n", "global", 2},
		{"def f():\n    a = 1\n    def g():\n        nonlocal a\n        a = 2\n", "nonlocal", 4},
		{"class A:\n    'what it is'\n    x: int = 1\n    y = 2\n    def f(self):\n        return self.x\n    async def g(self):\n        pass\n", "", 0},
		{"class A:\n    ...\n", "", 0},
		{"class A:\n    pass\n", "", 0},
		{"class A:\n    if True:\n        x = 1\n", "class", 2},
		{"class A:\n    print('hi')\n", "class", 2},
		{"class A:\n    a.b = 1\n", "class", 2},
		{"class A:\n    def f(self):\n        return type(self)\n", "type", 3},
		{"call(type='x', dir=1)\n", "", 0},
		{"d = {'eval': 1}\nd['exec']\nre.compile('x')\n", "", 0},
	} {
		got, err := Opacities(c.src)
		if err != nil {
			t.Fatalf("%q: %v", c.src, err)
		}
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%q: %+v, want nothing", c.src, got)
		case c.want == "":
		case len(got) == 0:
			t.Errorf("%q: nothing, want %s", c.src, c.want)
		case !strings.Contains(got[0].What, c.want) || got[0].Line != c.line:
			t.Errorf("%q: %+v, want %s in line %d", c.src, got[0], c.want, c.line)
		}
	}
	if got, err := Opacities(strings.Repeat("eval\n", 50)); err != nil || len(got) != maxOpaque {
		t.Errorf("%d, %v", len(got), err)
	}
	if _, err := Opacities("def"); err == nil {
		t.Error("no error for what is not Python")
	}
}
