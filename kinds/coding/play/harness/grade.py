"""Run listed unittest tests, each in a process of its own, and prove on standard output which of them passed.

Started by the judge in a box without network as `python3 -s -S -B -c <this file>`. Standard input holds one JSON
object (see kind/coding/judge.go); README.md beside it tells the threat model. In short:

* This process never imports code under test. It gets the test files on standard input (they are not on the disk of the
  box, so that code under test cannot read what is expected), rewrites them and forks one child per test.
* A test has passed only if its child has written three secret words ("tokens") which this run alone knows: one at the
  end of the test's own body, one after the runner counted a success, one after tests that must fail did fail. The
  tokens are constants inside compiled code; nothing that code under test can name leads to them.
* Assertions of the test files are bound when they are compiled to functions that look nothing up that code under test
  could replace. Patching unittest therefore changes nothing that counts.
* An audit hook ends the child when something reads or changes the code of tests, walks the heap or sets a trace.
* Children cannot be read from outside of themselves (see closed), and what they leave behind is killed.
"""
import sys

sys.path[:] = [p for p in sys.path if p]  # never import from the working directory
import _imp, _signal, ast, base64, builtins, gc, importlib.machinery, importlib.util, inspect, json, os, random, re, signal, time, types, unittest, warnings

TAMPERED = 86  # exit status of a child that the audit hook ended
NO_IMPORT = 87  # the module of the test could not be imported
PREFIX = "\0agon:"  # of marker strings that stand for constants until they are replaced
NEVER = frozenset("unittest importlib os sys builtins types abc io codecs".split())  # cannot be shadowed at all
SITE = ["/usr/lib/python3/dist-packages"]  # the system's packages come last; nothing of the user's or the site's start-up runs
READER = inspect._has_code_flag.__code__  # may look at the code of tests: it leaks one bit


# --- constants that no name leads to ------------------------------------------------------------------------------

def fill(code, values):
    """Return code with marker strings in its constants replaced, nested code included."""
    def one(c):
        if isinstance(c, types.CodeType):
            return fill(c, values)
        if isinstance(c, str) and c.startswith(PREFIX):
            return values[c[len(PREFIX):]]
        if isinstance(c, (tuple, frozenset)):  # the compiler folds displays of constants
            return type(c)(map(one, c))
        return c

    return code.replace(co_consts=tuple(map(one, code.co_consts)))


def marker(name):
    return ast.Constant(PREFIX + name)


class Names(ast.NodeTransformer):
    """Turn reads of given names into markers."""

    def __init__(self, names):
        self.names = names

    def visit_Name(self, node):
        if node.id in self.names and isinstance(node.ctx, ast.Load):
            return marker(node.id)
        return node


def inject(src, values, ns):
    """Compile one function whose free names are constants in its code."""
    tree = ast.fix_missing_locations(Names(set(values)).visit(ast.parse(src)))
    top = fill(compile(tree, "<agon>", "exec"), values)
    exec(top, ns)
    return ns.pop(tree.body[0].name)


def private_asserts(source, allow_any):
    """Make the assertion functions. Every name in them is a constant, so that their namespace holds nothing to replace."""
    search, build = re.compile("").__class__.search, re.compile

    def re_search(pattern, text):
        return search(build(pattern) if isinstance(pattern, (str, bytes)) else pattern, text)

    values = {n: v for n, v in builtins.__dict__.items() if not n.startswith("_")}
    values.update(re_search=re_search, randbelow=random.SystemRandom().randrange, ALLOW_ANY=allow_any, ANY=mock_any(allow_any))
    ns = {"__builtins__": dict(builtins.__dict__), "__name__": "agon_asserts"}
    same_ns = dict(ns)  # a namespace of its own tells these frames from the others
    out = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr):  # the docstring
            continue
        if isinstance(node, ast.Assign):  # a constant, or functions made by another
            made = eval(compile(ast.Expression(node.value), "<assertions>", "eval"), dict(values))
            target = node.targets[0]
            if isinstance(target, ast.Name):
                values[target.id] = out[target.id] = made
            else:
                for t, f in zip(target.elts, made):
                    values[t.id] = out[t.id] = f
            continue
        known = set(values) | {node.name}
        tree = ast.fix_missing_locations(Names(known).visit(ast.Module([node], [])))
        home = same_ns if node.name in ("same", "claims") else ns
        exec(compile(tree, "<assertions>", "exec"), home)
        f = values[node.name] = out[node.name] = home.pop(node.name)
        f.__code__ = fill(f.__code__, values)
    Result.escaped = out["ESCAPED"]
    return {n: f for n, f in out.items() if n.startswith("assert") or n in ("fail", "subTest", "same")}


def mock_any(allowed):
    """Return the type of mock.ANY if the tests use it."""
    if not allowed:
        return None
    from unittest import mock
    return type(mock.ANY)


class Rewrite(ast.NodeTransformer):
    """Bind assertions of test classes, note that one ran, and mark the end of listed test methods."""

    def __init__(self, module, listed, own, asserts):
        self.module, self.listed, self.own, self.asserts = module, listed, own, asserts
        self.classes, self.selves, self.asserting = [], [], set()
        self.method, self.returns = None, False

    def visit_ClassDef(self, node):
        self.classes.append(node.name)
        outer, self.method = self.method, None
        node.body = [self.visit_function(b, True) if isinstance(b, (ast.FunctionDef, ast.AsyncFunctionDef)) else self.visit(b) for b in node.body]
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        self.method = outer
        self.classes.pop()
        return node

    def visit_FunctionDef(self, node):
        return self.visit_function(node, False)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_function(self, node, in_class):
        kept = self.method, self.returns
        if in_class:
            args = node.args.posonlyargs + node.args.args
            self.selves.append(args[0].arg if args else None)
            self.method = ".".join(self.classes + [node.name]) if node.name in self.listed else None
            self.returns = self.method is not None
        else:
            self.returns = False  # the return of a nested function does not end the test
        body = []
        for statement in node.body:
            new = self.visit(statement)
            body.extend(new if isinstance(new, list) else [new])
        if in_class:
            if self.method:
                body.insert(0, ast.Expr(self.begin()))
                body.append(ast.Expr(self.mark()))
            self.selves.pop()
        node.body = body
        self.method, self.returns = kept
        return node

    def mark(self):
        index = ast.Call(marker("len"), [marker("ticks")], [])
        word = ast.Subscript(marker("word:%s:%s" % (self.module, self.method)), index, ast.Load())
        return ast.Call(marker("write"), [marker("fd"), word], [])

    def begin(self):
        """Say that the body has begun: whoever calls a test twice is seen."""
        return ast.Call(marker("write"), [marker("fd"), marker("begin:%s:%s" % (self.module, self.method))], [])

    def tick(self):
        return ast.Call(marker("tick"), [ast.Constant("t"), ast.Constant(1)], [])

    def visit_Lambda(self, node):
        kept, self.returns = self.returns, False
        self.generic_visit(node)
        self.returns = kept
        return node

    def visit_Return(self, node):
        self.generic_visit(node)
        if self.returns:
            value = node.value or ast.Constant(None)
            node.value = ast.Subscript(ast.Tuple([value, self.mark()], ast.Load()), ast.Constant(0), ast.Load())
        return node

    def unmask(self, test):
        """Compare for equality the way assertEqual does."""
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            return ast.Call(marker("same"), [test.left, test.comparators[0]], [])
        if isinstance(test, ast.BoolOp):
            test.values = [self.unmask(v) for v in test.values]
        return test

    def visit_Assert(self, node):
        self.generic_visit(node)
        node.test = self.unmask(node.test)
        if self.method:
            self.asserting.add(self.method)
        return [node, ast.Expr(self.tick())]

    def visit_Call(self, node):
        self.generic_visit(node)
        f = node.func
        if (isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and self.selves and f.value.id == self.selves[-1]
                and f.attr in self.asserts and f.attr not in self.own and f.attr != "same"):
            node.func = marker("call:" + f.attr)
            if f.attr == "assertTrue" and node.args:
                node.args[0] = self.unmask(node.args[0])
            if f.attr == "subTest":
                return node
            if self.method:
                self.asserting.add(self.method)
            return ast.Subscript(ast.Tuple([node, self.tick()], ast.Load()), ast.Constant(0), ast.Load())
        return node


class Result(unittest.TestResult):
    """Anything but a plain success leaves a note."""

    lines = False  # notes tell where a test ended: only where no patch is played

    def __init__(self):
        super().__init__()
        self.notes, self.failed = [], 0

    def remark(self, what, err, test=None):
        try:
            self.notes.append("%s: %s: %s%s" % (what, err[0].__name__, str(err[1])[:600], self.place(err[2], test) if self.lines else ""))
        except BaseException:
            self.notes.append(what)

    def place(self, trace, test):
        """Tell the line of the test's file that was left last."""
        line, modules = 0, {c.__module__ for c in type(test).__mro__}
        while trace is not None:
            if trace.tb_frame.f_globals.get("__name__") in modules:
                line = trace.tb_lineno
            trace = trace.tb_next
        return " (line %d)" % line

    def addError(self, test, err):
        self.remark("failure" if any(e is err[1] for e in self.escaped) else "error", err, test)

    def addFailure(self, test, err):
        self.failed += 1
        self.remark("failure", err, test)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.remark("failure in a subtest", err, test)

    def addSkip(self, test, reason):
        self.notes.append("skipped")

    def addExpectedFailure(self, test, err):
        self.notes.append("expected failure")

    def addUnexpectedSuccess(self, test):
        self.notes.append("unexpected success")


def snapshot():
    """Return a function that names the first part of the test machinery which is no longer what it was."""
    parts = [("builtins", builtins.__dict__)]
    for mod in (unittest, unittest.case, unittest.suite, unittest.result, unittest.loader):
        parts.append((mod.__name__, mod.__dict__))
    for cls in (unittest.TestCase, unittest.TestSuite, unittest.TestResult, unittest.BaseTestSuite, unittest.case._Outcome,
                unittest.case._AssertRaisesContext, Result):
        parts.append((cls.__name__, dict(cls.__dict__), cls))
    kept = [(p[0], dict(p[1]), p[2] if len(p) > 2 else p[1]) for p in parts]
    get = type.__getattribute__

    def check():
        for name, before, holder in kept:
            now = get(holder, "__dict__") if isinstance(holder, type) else holder
            for key, value in before.items():
                if key == "_" or key.startswith("__") and name != "builtins":
                    continue
                if key not in now or now[key] is not value:
                    return "%s.%s" % (name, key)
        return ""

    return check


def closed():
    """Whether processes of the same user are kept out of this one's memory.

    The judge starts a copy of python3 that may be executed but not read; the kernel then makes the process, and what
    it forks, not dumpable. ctypes would do the same by prctl, but its types could be found again by code under test.
    """
    try:
        os.close(os.open("/proc/self/mem", os.O_RDONLY))
    except OSError:
        return True
    return False


def module_names(spec):
    """Map importable names to the protected files that define them."""
    out = {}
    for rel in spec["files"]:
        for root in spec["path"]:
            base = os.path.relpath(os.path.join(spec["root"], rel), root)
            if base.startswith("..") or not base.endswith(".py"):
                continue
            parts = base[:-3].split("/")
            package = parts[-1] == "__init__"
            if package:
                parts.pop()
            if parts and all(p.isidentifier() for p in parts):
                out.setdefault(".".join(parts), (os.path.join(spec["root"], rel), package))
    return out


def bases_of(tree):
    """Map "Outer.Inner" to (names of bases, names of methods)."""
    out = {}

    def walk(body, prefix):
        for n in body:
            if isinstance(n, ast.ClassDef):
                names = [b.id if isinstance(b, ast.Name) else b.attr for b in n.bases if isinstance(b, (ast.Name, ast.Attribute))]
                out[prefix + n.name] = (names, {f.name for f in n.body if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))})
                walk(n.body, prefix + n.name + ".")
            elif isinstance(n, (ast.If, ast.Try)):
                walk(n.body, prefix)
                walk(n.orelse, prefix)

    walk(tree.body, "")
    return out


def resolve(classes, module, cls, method, seen=()):
    """Find the body of a test: (module, "Class.method"), looking into base classes by name."""
    if (module, cls) in seen or cls not in classes.get(module, {}):
        return None
    names, methods = classes[module][cls]
    if method in methods:
        return module, "%s.%s" % (cls, method)
    for base in names:
        for m in [module] + sorted(classes):
            found = resolve(classes, m, base, method, seen + ((module, cls),))
            if found:
                return found
    return None


def calm_asyncio():
    """Let unittest run coroutines without asyncio's debug mode, which keeps reading the code of everything on the stack."""
    import asyncio
    runner = asyncio.Runner

    def quiet(**options):
        options["debug"] = False
        return runner(**options)

    asyncio.Runner = quiet


def prepare(spec):
    """Read, rewrite and compile every protected file. Nothing of it is run here."""
    modules, trees, classes = module_names(spec), {}, {}
    for name, (path, _) in sorted(modules.items()):
        try:
            trees[name] = ast.parse(base64.b64decode(spec["files"][os.path.relpath(path, spec["root"])]), path)
        except (SyntaxError, ValueError):
            continue  # fixtures may be broken on purpose; importing one then fails as it should
        classes[name] = bases_of(trees[name])
    listed, own, allow_any = set(), set(), False
    for t in spec["tests"]:
        listed.add(t["id"].rsplit(".", 1)[1])
    for name in classes:
        for _, methods in classes[name].values():
            own |= methods
        if any(isinstance(n, ast.Attribute) and n.attr == "addTypeEqualityFunc" for n in ast.walk(trees[name])):
            own.add("assertEqual")
        allow_any = allow_any or any(isinstance(n, (ast.Name, ast.Attribute)) and getattr(n, "id", getattr(n, "attr", "")) == "ANY" for n in ast.walk(trees[name]))
    asserts = private_asserts(spec["asserts"], allow_any)
    codes, asserting, words = {}, set(), {}
    for name, tree in trees.items():
        rewrite = Rewrite(name, listed, own, asserts)
        tree = ast.fix_missing_locations(rewrite.visit(tree))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            codes[name] = compile(tree, modules[name][0], "exec", dont_inherit=True)
        asserting |= {(name, m) for m in rewrite.asserting}
        for cls, (_, methods) in classes[name].items():
            for m in methods & listed:
                words["word:%s:%s.%s" % (name, cls, m)] = (b"", b"")
    jobs = []
    for t in spec["tests"]:
        parts = t["id"].split(".")
        for cut in range(len(parts) - 2, 0, -1):
            module, cls = ".".join(parts[:cut]), parts[cut:-1]
            if module in codes:
                body = resolve(classes, module, ".".join(cls), parts[-1])
                break
        else:
            raise SystemExit("no test file holds %s" % t["id"])
        if body is None:
            raise SystemExit("no class holds the body of %s" % t["id"])
        jobs.append((t, module, cls, parts[-1], body, body in asserting))
    if any(isinstance(n, ast.Attribute) and n.attr == "IsolatedAsyncioTestCase" or isinstance(n, ast.alias) and n.name == "IsolatedAsyncioTestCase"
           for tree in trees.values() for n in ast.walk(tree)):
        calm_asyncio()
    return modules, codes, asserts, words, jobs


def shadow(spec):
    """Let modules of the task's own base tree stand before those of the standard library that have their name."""
    own = {n for n in spec["own"] if n in getattr(sys, "stdlib_module_names", ()) and n not in NEVER and n not in sys.builtin_module_names}
    if not own:
        return
    for name in [m for m in sys.modules if m.split(".")[0] in own]:
        del sys.modules[name]
    roots, find = list(spec["path"]), importlib.machinery.PathFinder.find_spec
    sys.meta_path.insert(1, types.SimpleNamespace(find_spec=lambda name, path=None, target=None: find(name, roots) if name in own else None))


def child(job, spec, modules, codes, asserts, words, out, note):
    """Become the process of one test. Never returns."""
    t, module, names, method, body, asserting = job
    # From here on only constants of compiled code know the tokens.
    ticks = {}
    words = dict(words)
    words["word:%s:%s" % body] = (t["bare"].encode() + b"\n" if not asserting else b"", t["body"].encode() + b"\n")
    words["begin:%s:%s" % body] = t["begin"].encode() + b"\n"
    values = {"len": len, "ticks": ticks, "tick": ticks.setdefault, "write": os.write, "fd": out, **words}
    values.update(("call:" + n, f) for n, f in asserts.items())
    values["same"] = asserts["same"]

    class Defaults(dict):
        def __missing__(self, key):
            return b"" if key.startswith("begin:") else (b"", b"")  # marks of classes inside functions

    filled = {n: fill(c, Defaults(values)) for n, c in codes.items()}
    same_ns = asserts["same"].__globals__
    protected = [asserts["fail"].__globals__, same_ns]
    private = {"__builtins__": dict(builtins.__dict__), "__name__": "agon_run"}
    protected.append(private)
    loader = types.SimpleNamespace(create_module=lambda spec: None, exec_module=inject(LOAD, {"PROTECTED": protected, "CODES": filled}, dict(private)))
    find = inject(FIND, {"CODES": filled, "FILES": {n: m[0] for n, m in modules.items()}, "PACKAGES": {n for n, m in modules.items() if m[1]},
                         "SPEC": importlib.util.spec_from_file_location, "LOADER": loader, "DIRNAME": os.path.dirname}, dict(private))
    protected.extend([find.__globals__, loader.exec_module.__globals__])
    run = inject(RUN, {"WRITE": os.write, "FD": out, "DONE": t["done"].encode() + b"\n", "SENTINEL": t["sentinel"].encode() + b"\n",
                       "EXIT": os._exit, "NO_IMPORT": NO_IMPORT, "TAMPERED": TAMPERED, "AssertionError": AssertionError}, private)
    hook_ns = {"__builtins__": {}}
    hook = inject(HOOK, {"GETFRAME": sys._getframe, "GETATTR": getattr, "HOOK_NS": hook_ns, "SAME_NS": same_ns, "PROTECTED": protected, "READER": READER,
                         "EXIT": os._exit, "TAMPERED": TAMPERED, "DEADLY": DEADLY, "UNSAFE": UNSAFE if spec["processes"] else UNSAFE | {"_posixsubprocess"},
                         "STARTS_PROCESSES": frozenset() if spec["processes"] else STARTS_PROCESSES, "IMPORTERROR": ImportError,
                         "SAFE": sys.base_prefix + "/", "STARTS": str.startswith, "TYPE": type, "STR": str, "OSERROR": PermissionError, "SAME": str.__eq__, "FIND": str.find}, hook_ns)
    _signal.signal = inject(SIGNAL, {"SET": _signal.signal, "CALLABLE": callable, "WRAP": inject(WRAP, {}, dict(private))}, dict(private))
    if not spec["processes"]:
        import _posixsubprocess  # raises no audit event of its own

        _posixsubprocess.fork_exec = inject(NO_FORK, {"OSERROR": PermissionError}, dict(private))
    _imp.create_builtin = inject(CREATE, {"TYPE": type, "STR": str, "IMPORTERROR": ImportError, "BUILD": _imp.create_builtin,
                                          "NAMED": types.SimpleNamespace}, dict(private))
    protected.extend([_signal.signal.__globals__, _imp.create_builtin.__globals__])
    finder = types.SimpleNamespace(find_spec=find)
    protected.append(hook_ns)
    integrity = snapshot()
    sys.path.extend(spec["path"] + [p for p in SITE if os.path.isdir(p)])
    sys.meta_path.insert(0, finder)
    shadow(spec)
    sys.argv = ["python3 -m unittest"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.chdir(spec["root"])
    spec.clear()
    go = (module, names, method, integrity, Result, unittest.TestSuite, unittest.TestCase, importlib.import_module, note)
    # Clear what this frame and its callers hold: frames can be walked.
    codes.clear()
    t.clear()
    asserts.clear()
    runs = [run]
    del run, job, t, values, filled, words, codes, loader, find, finder, hook_ns, same_ns, private, protected, asserts, Defaults, body, ticks
    gc.collect()
    sys.addaudithook(hook)
    del hook
    try:
        runs.pop()(*go)
        os._exit(0)
    except BaseException as e:
        try:
            note("%s: %s" % (type(e).__name__, e))
        finally:
            os._exit(1)


def sweep(me):
    """Kill what a test left behind: in a box every process of this user but this one and its parents."""
    keep, pid = {1, me}, me
    while pid > 1:
        pid = stat_of(pid)[1]
        keep.add(pid)
    for _ in range(1000):
        left = False
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) in keep:
                continue
            if stat_of(int(entry))[0] == "Z":
                continue
            try:
                os.kill(int(entry), signal.SIGKILL)
                left = True
            except OSError:
                continue
        collect()
        if not left:
            return
        time.sleep(0.001)  # let the kernel take them away


def stat_of(pid):
    """State and parent of a process."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            state, parent = f.read().rsplit(")", 1)[1].split()[:2]
            return state, int(parent)
    except (OSError, ValueError, IndexError):
        return "Z", 0


def collect():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main():
    spec = json.loads(sys.stdin.buffer.read())
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    def say(kind, value):
        os.write(out, (kind + " " + json.dumps(value)[:3500] + "\n").encode("ascii"))
    try:
        modules, codes, asserts, words, jobs = prepare(spec)
    except SystemExit as e:
        say("broken", str(e))
        return 2
    except BaseException as e:
        say("broken", "%s: %s" % (type(e).__name__, e))
        return 2
    timeout, boxed = spec["timeout"], spec["boxed"]
    Result.lines = spec.get("lines", False)
    os.write(out, (spec["ready"] + "\n").encode())
    say("closed", closed())
    gc.collect()
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    me = os.getpid()
    jobs.reverse()
    index = -1
    while jobs:
        index += 1
        job = [jobs.pop()]
        pid = os.fork()
        if pid == 0:
            jobs.clear()
            os.setsid()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            child(job.pop(), spec, modules, codes, asserts, words, out, lambda text, i=index: say("note", [i, str(text)[:800]]))
        job = None
        deadline = time.monotonic() + timeout
        status = None
        while status is None:
            left = deadline - time.monotonic()
            done, code = os.waitpid(pid, os.WNOHANG)
            if done:
                status = "exit %d" % os.waitstatus_to_exitcode(code)
            elif left <= 0:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                status = "timeout"
            else:
                signal.sigtimedwait({signal.SIGCHLD}, min(left, 1.0))
        if boxed:
            sweep(me)
        else:  # by hand, outside of a box: nothing may be swept there
            try:
                os.killpg(pid, signal.SIGKILL)
            except OSError:
                pass
        say("end", [index, status])
    return 0


sys.exit(main())
