"""Classic program repair, without a model: find suspicious lines, try small edits, keep the first that passes.

1. Run every visible test in a forked process that records which lines of the repository it executes.
2. Rank lines by the Ochiai formula: executed by tests that fail, not by tests that pass.
3. Edit the syntax tree around the highest lines in turn (another comparison, off by one, another name, ...). An edit
   replaces a few bytes of the source, so the diff stays small.
4. An edit that makes the failing tests pass is tried on the whole suite; the first that passes all is the answer.

It can only mend what a visible test shows to be broken. Standard library only.
"""
import ast
import json
import math
import os
import re
import select
import signal
import subprocess
import sys
import time
import unittest

REPO = "/repo"
TIMEOUT = float(os.getenv("AGENT_TIMEOUT", "120"))
STARTED = time.monotonic()
DEADLINE = STARTED + 0.8 * TIMEOUT - 1
MAX_MUTANTS = 6000


def agent_main(input):
    os.chdir(REPO)
    roots = [REPO] + [os.path.join(REPO, d) for d in ("src", "lib") if os.path.isdir(os.path.join(REPO, d))]
    ids = discover(roots)
    results = {t: run([t], roots, 10, trace=True) for t in ids if time.monotonic() < DEADLINE}
    failing = [t for t, r in results.items() if not r["ok"]]
    passing = [t for t, r in results.items() if r["ok"]]
    print("%d visible tests, %d fail" % (len(ids), len(failing)))
    if not failing:
        return ""
    slowest = max([r["seconds"] for r in results.values()] + [0.1])
    tried = 0
    for score, path, start, end, new, what in candidates(results, failing):
        if time.monotonic() > DEADLINE or tried >= MAX_MUTANTS:
            break
        with open(path, "rb") as f:
            old = f.read()
        changed = old[:start] + new + old[end:]
        try:
            compile(changed, path, "exec")
        except (SyntaxError, ValueError):
            continue
        tried += 1
        with open(path, "wb") as f:
            f.write(changed)
        limit = 1 + 4 * slowest
        good = run(failing[:1], roots, limit)["ok"] and run(failing, roots, limit + len(failing) * slowest)["ok"] and \
            run(passing, roots, limit + len(passing) * slowest)["ok"]
        diff = git_diff() if good else ""
        with open(path, "wb") as f:
            f.write(old)
        if good:
            print("mended by edit %d after %.1f s: %s" % (tried, time.monotonic() - STARTED, what))
            return diff
    print("no edit of %d mends it" % tried)
    return ""


def git_diff():
    out = subprocess.run(["git", "diff", "--no-color", "--no-ext-diff"], cwd=REPO, capture_output=True, check=True).stdout
    return out.decode("utf-8", "surrogateescape")


# --- running tests ------------------------------------------------------------------------------------------------

def in_child(work, limit):
    """Run work() in a forked process and return what it returns (JSON), or None after limit seconds or a crash."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            sys.dont_write_bytecode = True
            data = json.dumps(work()).encode()
            while data:
                data = data[os.write(write, data):]
        finally:
            os._exit(0)
    os.close(write)
    data, end = b"", time.monotonic() + max(0.05, min(limit, DEADLINE + 0.1 * TIMEOUT - time.monotonic()))
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([read], [], [], left)[0]:
            break
        chunk = os.read(read, 1 << 16)
        if not chunk:
            break
        data += chunk
    os.close(read)
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
    os.waitpid(pid, 0)
    try:
        return json.loads(data)
    except ValueError:
        return None


def discover(roots):
    def work():
        sys.path[:0] = roots
        found = []
        loader = unittest.TestLoader()
        for folder, dirs, files in os.walk(REPO):
            dirs[:] = sorted(d for d in dirs if not d.startswith("."))
            for name in sorted(files):
                if not re.match(r"test.*\.py$|.*_test\.py$", name):
                    continue
                rel = os.path.relpath(os.path.join(folder, name), REPO)[:-3].replace(os.sep, ".")
                for module in [rel] + ([rel.split(".", 1)[1]] if rel.startswith(("src.", "lib.")) else []):
                    try:
                        walk(loader.loadTestsFromName(module), found)
                        break
                    except BaseException:
                        continue
        return found

    def walk(suite, found):
        for t in suite:
            if isinstance(t, unittest.TestSuite):
                walk(t, found)
            elif not type(t).__module__.startswith("unittest"):
                found.append(t.id())

    return in_child(work, 20) or []


def run(ids, roots, limit, trace=False):
    """Run tests in a fresh process: whether all pass, and with trace which lines of the repository ran."""
    def work():
        sys.path[:0] = roots
        lines = set()

        def local(frame, event, arg):
            if event == "line":
                lines.add((frame.f_code.co_filename, frame.f_lineno))
            return local

        def tracer(frame, event, arg):
            name = frame.f_code.co_filename
            if name.startswith(REPO + "/") and not is_test(name):
                lines.add((name, frame.f_lineno))
                return local
            return None

        if trace:
            sys.settrace(tracer)
        started = time.monotonic()
        result = unittest.TestResult()
        result.failfast = True
        unittest.defaultTestLoader.loadTestsFromNames(ids).run(result)
        sys.settrace(None)
        return {"ok": result.wasSuccessful() and result.testsRun >= len(ids), "lines": sorted(lines), "seconds": time.monotonic() - started}

    if not ids:
        return {"ok": True, "lines": [], "seconds": 0}
    return in_child(work, limit) or {"ok": False, "lines": [], "seconds": limit}


def is_test(path):
    parts = os.path.relpath(path, REPO).split(os.sep)
    return "tests" in parts or "test" in parts or parts[-1].startswith("test_") or parts[-1].endswith("_test.py")


# --- where to look ------------------------------------------------------------------------------------------------

def candidates(results, failing):
    """Yield edits, the most promising first."""
    by_line = {}
    for test, r in results.items():
        for path, line in r["lines"]:
            bad, good = by_line.setdefault((path, line), [0, 0])
            by_line[(path, line)] = [bad + (test in failing), good + (test not in failing)]
    suspicion = {}
    for (path, line), (bad, good) in by_line.items():
        if bad:
            suspicion.setdefault(path, {})[line] = bad / math.sqrt(len(failing) * (bad + good))
    edits = []
    for path, lines in sorted(suspicion.items()):
        with open(path, "rb") as f:
            source = f.read()
        try:
            maker = Maker(source, lines)
        except SyntaxError:
            continue
        for weight, line, start, end, new, what in maker.edits():
            edits.append((lines[line] * weight, path, start, end, new, "%s:%d %s" % (os.path.relpath(path, REPO), line, what)))
    edits.sort(key=lambda e: (-e[0], e[1], e[2], e[4]))
    seen = set()
    for e in edits:
        if e[1:5] not in seen:
            seen.add(e[1:5])
            yield e


# --- what to try --------------------------------------------------------------------------------------------------

COMPARE = {"<": ["<=", ">", ">="], "<=": ["<", ">=", ">"], ">": [">=", "<", "<="], ">=": [">", "<=", "<"], "==": ["!=", "<=", ">="],
           "!=": ["=="], "is": ["is not"], "is not": ["is"], "in": ["not in"], "not in": ["in"]}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<",
             ast.RShift: ">>", ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^", ast.Pow: "**"}
BINARY = {"+": ["-"], "-": ["+"], "*": ["/", "//", "+"], "/": ["//", "*"], "//": ["/", "%"], "%": ["//"], "<<": [">>"], ">>": ["<<"],
          "|": ["&", "^"], "&": ["|"], "^": ["|"], "**": ["*"]}
SWAPS = {}
for _a, _b in [("min", "max"), ("any", "all"), ("append", "extend"), ("append", "appendleft"), ("pop", "popleft"), ("lstrip", "rstrip"),
               ("strip", "rstrip"), ("startswith", "endswith"), ("find", "rfind"), ("index", "rindex"), ("floor", "ceil"), ("upper", "lower"),
               ("split", "rsplit"), ("partition", "rpartition"), ("add", "discard"), ("keys", "values"), ("union", "intersection"),
               ("isdigit", "isalnum"), ("update", "setdefault"), ("first", "last"), ("left", "right"), ("prev", "next"), ("start", "end")]:
    SWAPS.setdefault(_a, []).append(_b)
    SWAPS.setdefault(_b, []).append(_a)


class Maker(ast.NodeVisitor):
    """Collect edits (weight, line, start, end, new bytes, words) of one file on suspicious lines."""

    def __init__(self, source, lines):
        self.source, self.lines, self.out = source, lines, []
        self.tree = ast.parse(source)
        self.offsets = [0]
        for line in source.splitlines(keepends=True) if b"\r" not in source.replace(b"\r\n", b"") else [source]:
            self.offsets.append(self.offsets[-1] + len(line))
        self.scopes, self.attributes = [], {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                child.parent = node

    def edits(self):
        self.visit(self.tree)
        return self.out

    def span(self, node):
        return self.offsets[node.lineno - 1] + node.col_offset, self.offsets[node.end_lineno - 1] + node.end_col_offset

    def text(self, node):
        start, end = self.span(node)
        return self.source[start:end]

    def put(self, weight, line, start, end, new, what):
        if line in self.lines:
            self.out.append((weight, line, start, end, new, what))

    def replace(self, weight, node, new, what):
        start, end = self.span(node)
        if self.source[start:end] != new:
            self.put(weight, node.lineno, start, end, new, "%s: %s -> %s" % (what, self.source[start:end].decode(errors="replace"), new.decode(errors="replace")))

    # Names that an expression of this function may use instead.
    def visit_FunctionDef(self, node):
        names = {a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs} - {"self", "cls"}
        names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.scopes.append(names)
        self.mutable_defaults(node)
        self.missing_return(node, names)
        self.generic_visit(node)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        outer = self.attributes
        self.attributes = {}
        for n in ast.walk(node):
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self":
                called = isinstance(getattr(n, "parent", None), ast.Call) and n.parent.func is n
                self.attributes.setdefault(called, set()).add(n.attr)
        self.generic_visit(node)
        self.attributes = outer

    def visit_Compare(self, node):
        left = node.left
        for op, right in zip(node.ops, node.comparators):
            start, end = self.span(left)[1], self.span(right)[0]
            gap = self.source[start:end]
            m = re.search(rb"<=|>=|==|!=|<|>|\bis\s+not\b|\bis\b|\bnot\s+in\b|\bin\b", gap)
            if m:
                old = b" ".join(m.group().split()).decode()
                for k, new in enumerate(COMPARE.get(old, [])):
                    self.put(1.0 - 0.1 * k, node.lineno, start + m.start(), start + m.end(), new.encode(), "comparison %s -> %s" % (old, new))
            for side in (left, right):
                self.shift(0.6, side)
            left = right
        self.generic_visit(node)

    def shift(self, weight, node):
        """Off by one."""
        if isinstance(node, ast.Constant) and not isinstance(node.value, int):
            return
        text = self.text(node)
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            text = b"(" + text + b")"
        if not isinstance(node, ast.Constant):
            for sign in (b" + 1", b" - 1"):
                self.replace(weight, node, text + sign, "off by one")

    def visit_BoolOp(self, node):
        old, new = (b"and", b"or") if isinstance(node.op, ast.And) else (b"or", b"and")
        for a, b in zip(node.values, node.values[1:]):
            start, end = self.span(a)[1], self.span(b)[0]
            m = re.search(rb"\b" + old + rb"\b", self.source[start:end])
            if m:
                self.put(0.95, node.lineno, start + m.start(), start + m.end(), new, "%s -> %s" % (old.decode(), new.decode()))
        for i, v in enumerate(node.values):
            self.negate(0.6, v)
            if i == 0:
                self.put(0.5, node.lineno, self.span(v)[0], self.span(node.values[1])[0], b"", "condition dropped")
            else:
                self.put(0.5, node.lineno, self.span(node.values[i - 1])[1], self.span(v)[1], b"", "condition dropped")
        self.generic_visit(node)

    def negate(self, weight, node):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.replace(weight, node, self.text(node.operand), "negation")
        else:
            simple = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
            self.replace(weight, node, b"not " + (self.text(node) if simple else b"(" + self.text(node) + b")"), "negation")

    def visit_If(self, node):
        self.negate(0.85, node.test)
        self.generic_visit(node)

    visit_IfExp = visit_While = visit_If

    def visit_BinOp(self, node):
        old = OPERATORS.get(type(node.op))
        start, end = self.span(node.left)[1], self.span(node.right)[0]
        at = self.source[start:end].find(old.encode()) if old else -1
        if at >= 0:
            for new in BINARY[old]:
                self.put(0.8, node.lineno, start + at, start + at + len(old), new.encode(), "operator %s -> %s" % (old, new))
        if isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.right, ast.Constant) and node.right.value == 1:
            self.put(0.75, node.lineno, self.span(node.left)[1], self.span(node.right)[1], b"", "drop the 1")
        s, e = self.span(node)
        self.put(0.5, node.lineno, s, e, self.text(node.right) + self.source[start:end] + self.text(node.left), "operands swapped")
        leaves = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Subscript, ast.Attribute)) and not isinstance(getattr(n, "parent", None), (ast.Subscript, ast.Attribute))]
        for i, a in enumerate(leaves):
            for b in leaves[i + 1:]:
                (s1, e1), (s2, e2) = sorted([self.span(a), self.span(b)])
                if e1 <= s2:
                    self.put(0.6, node.lineno, s1, e2, self.source[s2:e2] + self.source[e1:s2] + self.source[s1:e1], "two operands swapped")
        self.generic_visit(node)

    def visit_Constant(self, node):
        v = node.value
        if isinstance(v, bool):
            self.replace(0.7, node, str(not v).encode(), "constant")
        elif isinstance(v, int) and abs(v) < 1 << 32:
            for k in (v + 1, v - 1):
                self.replace(0.7, node, str(k).encode(), "constant")
            if v not in (0, 1):
                self.replace(0.4, node, b"0", "constant")
        elif v is None and isinstance(getattr(node, "parent", None), ast.Return):
            for name in self.scopes[-1] if self.scopes else ():
                self.replace(0.3, node, name.encode(), "constant")

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and self.scopes:
            for name in sorted(self.scopes[-1] - {node.id}):
                self.replace(0.7 if node.id in self.scopes[-1] else 0.2, node, name.encode(), "name")
        for name in SWAPS.get(node.id, ()):
            self.replace(0.8, node, name.encode(), "name")

    def visit_Attribute(self, node):
        end = self.span(node)[1]
        start = end - len(node.attr.encode())
        called = isinstance(getattr(node, "parent", None), ast.Call) and node.parent.func is node
        others = list(SWAPS.get(node.attr, ()))
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            others += sorted(self.attributes.get(called, set()) - {node.attr})
        for name in others:
            self.put(0.75 if name in SWAPS.get(node.attr, ()) else 0.6, node.lineno, start, end, name.encode(), "attribute %s -> %s" % (node.attr, name))
        self.generic_visit(node)

    def visit_Subscript(self, node):
        parts = [node.slice.lower, node.slice.upper] if isinstance(node.slice, ast.Slice) else [node.slice]
        for p in parts:
            if p is not None:
                self.shift(0.75, p)
        if isinstance(node.slice, ast.Slice) and node.slice.step is None:
            for p in parts:
                if p is not None:
                    s, e = self.span(p)
                    self.put(0.5, node.lineno, s, e, b"", "bound dropped")
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            for a in node.args:
                self.shift(0.85, a)
        else:
            for a in node.args:
                self.shift(0.35, a)
        for a, b in zip(node.args, node.args[1:]):
            (s1, e1), (s2, e2) = self.span(a), self.span(b)
            self.put(0.7, node.lineno, s1, e2, self.source[s2:e2] + self.source[e1:s2] + self.source[s1:e1], "arguments swapped")
        if isinstance(node.func, ast.Name) and node.func.id in ("sorted", "list", "set", "reversed", "int", "str") and len(node.args) == 1 and not node.keywords:
            self.replace(0.3, node, self.text(node.args[0]), "call dropped")
        self.generic_visit(node)

    def visit_Return(self, node):
        if node.value is not None:
            if isinstance(node.value, ast.Attribute):
                for wrap in (b"list", b"dict"):
                    self.replace(0.3, node.value, wrap + b"(" + self.text(node.value) + b")", "copy")
            self.shift(0.4, node.value)
        self.generic_visit(node)

    def statement(self, node, weight, new, what):
        start, end = self.span(node)
        self.put(weight, node.lineno, start, end, new, what)

    def visit_Break(self, node):
        self.statement(node, 0.7, b"continue", "break -> continue")

    def visit_Continue(self, node):
        self.statement(node, 0.7, b"break", "continue -> break")

    def visit_Expr(self, node):
        self.statement(node, 0.45, b"pass", "statement dropped")
        self.generic_visit(node)

    def visit_Assign(self, node):
        self.statement(node, 0.4, b"pass", "statement dropped")
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        old = OPERATORS.get(type(node.op))
        start, end = self.span(node.target)[1], self.span(node.value)[0]
        at = self.source[start:end].find((old + "=").encode()) if old else -1
        if at >= 0:
            for new in BINARY[old]:
                self.put(0.8, node.lineno, start + at, start + at + len(old), new.encode(), "operator %s= -> %s=" % (old, new))
            self.put(0.5, node.lineno, start + at, start + at + len(old) + 1, b"=", "operator %s= -> =" % old)
        self.statement(node, 0.4, b"pass", "statement dropped")
        self.shift(0.6, node.value)
        self.generic_visit(node)

    def missing_return(self, node, names):
        last = node.body[-1]
        indent = b"\n" + b" " * last.col_offset
        if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant):
            self.replace(0.6, last, b"return " + self.text(last.value), "missing return")
        if not isinstance(last, (ast.Return, ast.Raise)):
            for name in sorted(names):
                self.replace(0.4, last, self.text(last) + indent + b"return " + name.encode(), "missing return")

    def mutable_defaults(self, node):
        args = node.args.posonlyargs + node.args.args
        for arg, default in zip(args[len(args) - len(node.args.defaults):], node.args.defaults):
            if isinstance(default, (ast.List, ast.Dict, ast.Set)) or isinstance(default, ast.Call) and not default.args:
                start, end = self.span(default)
                body = self.span(node.body[0])[0]
                old, name, indent = self.text(default), arg.arg.encode(), b" " * node.body[0].col_offset
                guard = b"if " + name + b" is None:\n" + indent + b"    " + name + b" = " + old + b"\n" + indent
                line = min([n for n in self.lines if node.lineno <= n <= node.end_lineno], default=0)
                self.put(0.9, line, start, body, b"None" + self.source[end:body] + guard, "mutable default of " + arg.arg)
