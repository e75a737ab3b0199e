"""Draw twins of the listed tests: the same test with one expectation falsified.

Runs after the definitions of grade.py, in a box of its own that holds no patch, and runs nothing of the task. Standard
input is grade.py's, with how many twins are wanted of each test and a number to draw by. One line is written: a list
with an entry for each test, of {"body", "file", "twins": [{"what", "lines", "edits": [{"start", "end", "text"}]}]}; lines
are the first and the last of the statement that expects it. Places are
bytes of the file; an edit keeps the number of lines, so that every line of a twin stands where it stood.

Tests of pytest are functions as well as methods; of a table of cases each case is falsified at once, as each is a test of
its own. Their standard input is {"files", "units", "twins", "draw"}, and an entry has "mark" besides: the edits that write
"begin NUMBER" where the body begins, NUMBER being the place of the unit in the list.

Whoever passes a test cannot pass its twin: an expected value is another one, a comparison or a truth is negated, an
exception must say what it does not say. What a test gives to the code under test stays as it is, but where a test
expects nothing that can be falsified otherwise.

Code under test may read what is expected, and must not be able to tell a falsified value by its looks: a word is
exchanged for one that the same test, or else its file, has, a number keeps its form, a text its quotes.
"""

NEGATED = {}
for pair in """Equal NotEqual|True False|Is IsNot|IsNone IsNotNone|In NotIn|IsInstance NotIsInstance|Less GreaterEqual
LessEqual Greater|AlmostEqual NotAlmostEqual|Regex NotRegex""".replace("\n", "|").split("|"):
    first, second = pair.split()
    NEGATED["assert" + first], NEGATED["assert" + second] = "assert" + second, "assert" + first
EQUAL = frozenset("assert" + n for n in "Equal ListEqual TupleEqual DictEqual MultiLineEqual SetEqual SequenceEqual CountEqual AlmostEqual".split())
ERRORS = tuple("ValueError TypeError KeyError IndexError AttributeError RuntimeError OSError ZeroDivisionError".split())
MAX_EDIT = 1 << 16  # bytes of what an edit puts in


WORD = re.compile("[A-Za-z]{3,}")
ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{1,3}|.)", re.S)


def words_of(node):
    """Return the words of a tree's texts, each once and in order."""
    return list(dict.fromkeys(w.lower() for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str) for w in WORD.findall(n.value)))


class Source:
    """The bytes of a file, where its lines begin, the words of its texts and the quotes that it has more of."""

    def __init__(self, data, tree):
        self.data, self.starts, self.words = data, [0], words_of(tree)
        self.quote = '"' if data.count(b'"') > data.count(b"'") else "'"
        for line in data.splitlines(keepends=True) if b"\f" not in data and b"\r" not in data.replace(b"\r\n", b"") else []:
            self.starts.append(self.starts[-1] + len(line))

    def place(self, line, column):
        return self.starts[line - 1] + column

    def span(self, node):
        return self.place(node.lineno, node.col_offset), self.place(node.end_lineno, node.end_col_offset)

    def lines(self, node):
        return node.end_lineno - node.lineno


def statements(function):
    """Map what stands in a statement to its first and last line; blocks of with are statements, others are not."""
    out = {}
    for s in ast.walk(function):
        if isinstance(s, ast.stmt) and not isinstance(s, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.update((n, [s.lineno, s.end_lineno]) for n in ast.walk(s))
    return out


class Drawer:
    """Finds what can be falsified in one test's body."""

    def __init__(self, source, function, own, draw):
        self.source, self.own, self.draw, self.words = source, own, draw, words_of(function)
        self.me = (function.args.posonlyargs + function.args.args or [None])[0]
        self.me = self.me.arg if self.me else None
        self.changed, self.negated, self.other, self.given = [], [], [], []
        self.lines, self.at = statements(function), [0, 0]
        self.assigned = {}  # name to the only display of constants that it is bound to
        loads = {}
        for n in ast.walk(function):
            if isinstance(n, ast.Name):
                loads[n.id] = loads.get(n.id, 0) + 1
        for n in ast.walk(function):
            if isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Name) and loads[n.targets[0].id] == 2:
                self.assigned[n.targets[0].id] = n.value
        for n in ast.walk(function):
            self.at = self.lines.get(n, [0, 0])
            if isinstance(n, ast.Call):
                self.call(n)
            elif isinstance(n, ast.Assert):
                self.statement(n)
        self.at = [0, 0]

    def edit(self, start, end, text, node=None):
        text = text.encode() + b"\n" * (self.source.lines(node) if node is not None else 0)
        return {"start": start, "end": end, "text": text.decode()}

    def add(self, where, what, *edits):
        if sum(len(e["text"]) for e in edits) <= MAX_EDIT:
            where.append({"what": what, "lines": self.at, "edits": sorted(edits, key=lambda e: e["start"])})

    def call(self, n):
        f = n.func
        if not (isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == self.me) or any(isinstance(a, ast.Starred) for a in n.args):
            return
        name, args = f.attr, n.args
        if name in self.own or not name.startswith("assert"):
            if name in self.own:
                for a in args[::-1]:
                    self.constants(a, self.given, "what a helper is given")
            return
        end = self.source.place(f.end_lineno, f.end_col_offset)
        if name in EQUAL and len(args) >= 2:
            known = len(self.changed)
            for a in (args[1], args[0]):
                self.constants(a, self.changed, "another value is expected")
            for message in args[2:3] + [k.value for k in n.keywords if k.arg == "msg"]:
                self.say_too(self.changed[known:], message)
            start, stop = self.source.span(args[1])
            if name == "assertEqual":
                if isinstance(args[1], ast.Name) and args[1].id in self.assigned:  # where it is made, it is seen by whoever looks for it
                    start, stop = self.source.span(self.assigned[args[1].id])
                self.add(self.other, "another form is expected", self.edit(start, start, "["), self.edit(stop, stop, ", 0]"))
        if name in ("assertIn", "assertRegex", "assertRaisesRegex") and len(args) >= 2:
            self.constants(args[0 if name == "assertIn" else 1], self.changed, "other content is expected")
        if name in NEGATED and self.source.data[end - len(name):end] == name.encode():
            self.add(self.negated, "the contrary is expected", self.edit(end - len(name), end, NEGATED[name]))
        if name in ("assertRaises", "assertRaisesRegex") and args:
            self.other_exceptions(args[0])
        if name == "assertRaises" and args and self.source.data[end - len(name):end] == name.encode():
            for _ in range(2):
                stop = self.source.span(args[0])[1]
                self.add(self.changed, "other words of the exception are expected", self.edit(end, end, "Regex"), self.edit(stop, stop, ", " + self.phrase()))

    def other_exceptions(self, n):
        """Expect exceptions that are none of the expected kind, and that this kind is none of."""
        if not isinstance(n, (ast.Name, ast.Attribute)) or n.lineno != n.end_lineno:
            return
        kind = getattr(builtins, n.id, None) if isinstance(n, ast.Name) else None
        if kind in (Exception, BaseException):
            return
        known = isinstance(kind, type)
        others = [e for e in map(builtins.__dict__.get, ERRORS) if not known or not issubclass(e, kind) and not issubclass(kind, e)]
        for e in self.draw.sample(others, 2):
            # A package's own exceptions may be built-in ones as well.
            what = "another exception is expected" if known else "an exception of Python's own is expected"
            self.add(self.changed, what, self.edit(*self.source.span(n), e.__name__))

    def statement(self, n):
        start, end = self.source.span(n.test)
        if isinstance(n.test, ast.Compare) and len(n.test.ops) == 1 and isinstance(n.test.ops[0], ast.Eq):
            inside, known = n.test.lineno == n.test.end_lineno, len(self.changed)
            for a in (n.test.comparators[0], n.test.left):
                if inside:
                    self.constants(a, self.changed, "another value is expected")
            self.say_too(self.changed[known:], n.msg)
        self.add(self.negated, "the contrary is expected", self.edit(start, start, "not ("), self.edit(end, end, ")"))

    def say_too(self, twins, message):
        """Have a message say what a twin expects, where it says what the test expects: it would tell the two apart."""
        if not (isinstance(message, ast.Constant) and isinstance(message.value, str)):
            return
        start, end = self.source.span(message)
        text = self.source.data[start:end].decode()
        for t in twins:
            e = t["edits"][0]
            old, new = self.source.data[e["start"]:e["end"]].decode().strip("\"'"), e["text"].strip("\"'\n")
            if len(t["edits"]) > 1 or not old or not new:
                continue
            said = re.sub(r"(?<!\w)%s(?!\w)" % re.escape(old), lambda m: new, text)
            try:
                fits = said != text and isinstance(ast.literal_eval(said), str) and said.count("\n") == text.count("\n")
            except (SyntaxError, ValueError):
                continue
            if fits:
                t["edits"] = sorted(t["edits"] + [{"start": start, "end": end, "text": said}], key=lambda e: e["start"])

    def constants(self, node, where, what):
        """Note a change of each constant of a display; a name stands for what it is bound to."""
        if isinstance(node, ast.Name) and node.id in self.assigned and where is self.changed:
            node = self.assigned.pop(node.id)
            if node.lineno != node.end_lineno and isinstance(node, ast.Constant):
                return
        leaves, stack = [], [node]
        while stack:
            x = stack.pop()
            if isinstance(x, ast.Constant):
                leaves.append(x)
            elif isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub) and isinstance(x.operand, ast.Constant):
                leaves.append(x.operand)
            elif isinstance(x, (ast.List, ast.Tuple, ast.Set)):
                stack.extend(x.elts)
            elif isinstance(x, ast.Dict):
                stack.extend(v for v in x.keys + x.values if v is not None)
            elif x is node:
                return
        self.draw.shuffle(leaves)
        for x in leaves[:4]:
            start, end = self.source.span(x)
            old = self.source.data[start:end].decode()
            text = self.reworded(old, x.value) if isinstance(x.value, str) else None
            if text is not None:
                self.add(where, what, {"start": start, "end": end, "text": text})
                continue
            new = self.another(x.value)
            if new is not None:
                self.add(where, what, self.edit(start, end, self.written(new, old), x))
        if isinstance(node, ast.List):
            stop = self.source.span(node)[1] - 1
            last = node.elts[-1] if node.elts else None
            if last is None:
                self.add(where, "one element more is expected", self.edit(stop, stop, "0"))
            elif last.lineno == last.end_lineno and not isinstance(last, ast.Starred):
                a, b = self.source.span(last)
                self.add(where, "one element more is expected", self.edit(b, b, ", " + self.source.data[a:b].decode()))

    def written(self, new, old):
        """Write a value in the form of the text old, which it stands for."""
        texts = []
        if isinstance(new, (str, bytes)):
            prefix = old[:len(old) - len(old.lstrip("bBrRuU"))]
            quote = old[len(prefix):][:1]
            inner = repr(new)[2 if isinstance(new, bytes) else 1:-1]
            texts += [prefix + quote + t + quote for t in (new if isinstance(new, str) else "", inner.replace("\\'", "'").replace(quote or "'", "\\" + quote), inner)]
        elif type(new) is int:
            if old[:2] in ("0x", "0X"):
                digits = "%0*x" % (len(old) - 2, new)
                texts.append(old[:2] + (digits.upper() if old[2:] != old[2:].lower() else digits))
            if "_" in old:
                texts.append(format(new, "_"))
        for t in texts:
            try:
                if type(ast.literal_eval(t)) is type(new) and ast.literal_eval(t) == new and "\n" not in t:
                    return t
            except (SyntaxError, ValueError):
                pass
        return repr(new)

    def reworded(self, old, value):
        """Return the text of a string with other words in it, on as many lines; None where it has no words to change."""
        free = ESCAPE.sub(lambda m: "\0" * len(m[0]), old)
        for f in self.changes()[:2]:
            text = f(old, free)
            try:
                new = ast.literal_eval("(" + text + ")")
            except (SyntaxError, ValueError):
                continue
            if isinstance(new, str) and new != value and text.count("\n") == old.count("\n"):
                return text
        return None

    def changes(self):
        """Return the ways to change words, in a random order."""
        out = [self.other_word, self.other_word, self.turned_words]
        self.draw.shuffle(out)
        return out

    def phrase(self):
        """Return the text of a string of words that no exception is likely to say in this order."""
        words = self.source.words if len(self.source.words) > 3 else ["".join(self.draw.choice("aeiou" if i % 2 else "bdfglmnprst") for i in range(6)) for _ in range(3)]
        return self.source.quote + " ".join(self.draw.sample(words, 2)) + self.source.quote

    def another(self, v):
        """Return a value like v that is not v, or None."""
        d = self.draw
        if isinstance(v, bool):
            return not v
        if isinstance(v, int):
            zeros = 10 ** (len(str(v)) - len(str(v).rstrip("0"))) if abs(v) >= 100 else 1
            by = d.randint(1, 9 if abs(v) < 100 else max(abs(v) // zeros // 3, 1)) * zeros
            return v - by if v > by and d.random() < 0.5 else v + by
        if isinstance(v, float):
            text = repr(v)
            places = [i for i, c in enumerate(text) if c.isdigit()]
            if v - v or "e" in text:
                return v + d.randint(1, 9) * (abs(v) / 10 if v else 1.0) if v - v == 0 else None
            i = d.choice(places)
            return float(text[:i] + d.choice("123456789".replace(text[i], "")) + text[i + 1:])
        if isinstance(v, bytes):
            try:
                return self.another(v.decode("ascii")).encode()
            except ValueError:
                return v + bytes([97 + d.randrange(26)])
        if not isinstance(v, str):
            return None
        for f in self.changes() + [self.other_number]:  # a number that stands nowhere else is seen
            new = f(v, v)
            if new != v:
                return new
        letters = [i for i, c in enumerate(v) if c.isascii() and c.isalnum()]
        if not letters:
            return v + d.choice("abcdefghijklmnopqrstuvwxyz")
        i = d.choice(letters)
        pool = "0123456789" if v[i].isdigit() else "abcdefghijklmnopqrstuvwxyz" if v[i].islower() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        return v[:i] + d.choice(pool.replace(v[i], "")) + v[i + 1:]

    def other_word(self, v, free):
        """Return v with another word in place of one of its words: of the same test, or of its file."""
        found = list(WORD.finditer(free))
        if not found:
            return v
        m = self.draw.choice(found)
        for words in (self.words, self.source.words):
            words = [w for w in words if w != m[0].lower()]
            if words:
                w = self.draw.choice(words)
                return v[:m.start()] + (w.upper() if m[0].isupper() else w.capitalize() if m[0][0].isupper() else w) + v[m.end():]
        return v

    def turned_words(self, v, free):
        """Return v with two neighbours among its words in the other order."""
        found = list(WORD.finditer(free))
        if len(found) < 2:
            return v
        i = self.draw.randrange(len(found) - 1)
        a, b = found[i], found[i + 1]
        return v[:a.start()] + b[0] + v[a.end():b.start()] + a[0] + v[b.end():]

    def other_number(self, v, free):
        """Return v with another digit in place of one of its digits."""
        digits = [i for i, c in enumerate(free) if c in "0123456789"]
        if not digits:
            return v
        i = self.draw.choice(digits)
        return v[:i] + self.draw.choice("123456789".replace(v[i], "")) + v[i + 1:]

    def twins(self, wanted):
        """Return the wanted number of twins, of all sorts in turn: expected values first."""
        sorts = [self.changed, self.negated, self.other]
        for s in sorts:
            self.draw.shuffle(s)
        out, i = [], 0
        while len(out) < wanted and any(sorts):
            if sorts[i % 3]:
                out.append(sorts[i % 3].pop())
            i += 1
        self.draw.shuffle(self.given)
        return (out + self.given)[:wanted]


def functions(tree):
    """Map "Outer.Class.method" to its definition."""
    out = {}

    def walk(body, prefix):
        for n in body:
            if isinstance(n, ast.ClassDef):
                walk(n.body, prefix + n.name + ".")
            elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and prefix:
                out[prefix + n.name] = n
            elif isinstance(n, (ast.If, ast.Try)):
                walk(n.body, prefix)
                walk(n.orelse, prefix)

    walk(tree.body, "")
    return out


def hand_over(out):
    """Write what was found; where it is very much, four of each test."""
    if sum(len(e["text"]) + 64 for f in out for t in f["twins"] for e in t["edits"]) > 4 << 20:
        for f in out:
            del f["twins"][4:]
    data = (json.dumps(out) + "\n").encode()
    while data:
        data = data[os.write(1, data):]


def draw_twins(spec):
    wanted, seed = spec["twins"], spec["draw"]
    modules, _, _, _, jobs = prepare(spec)
    sources, defs, own = {}, {}, {}
    for name, (path, _) in modules.items():
        rel = os.path.relpath(path, spec["root"])
        data = base64.b64decode(spec["files"][rel])
        try:
            tree = ast.parse(data, path)
            data.decode()
        except (SyntaxError, ValueError):
            continue
        if data.startswith(b"\xef\xbb\xbf"):
            continue
        sources[name], defs[name] = (rel, Source(data, tree)), functions(tree)
        own[name] = {m for _, methods in bases_of(tree).values() for m in methods}
    helpers = set().union(*own.values()) if own else set()
    out = []
    for t, _, _, _, body, _ in jobs:
        name = "%s:%s" % body
        found = {"body": name, "file": "", "twins": []}
        if body[0] in sources and body[1] in defs[body[0]]:
            rel, source = sources[body[0]]
            if len(source.starts) > 1:
                found["file"] = rel
                found["twins"] = Drawer(source, defs[body[0]][body[1]], helpers, random.Random("%s %s" % (seed, name))).twins(wanted)
        out.append(found)
    hand_over(out)
    return 0


class PytestDrawer(Drawer):
    """Finds what can be falsified in one test of pytest."""

    def __init__(self, source, function, own, draw):
        super().__init__(source, function, own, draw)
        self.compared, self.tables, whole = set(), [], [function.lineno, function.end_lineno]
        for n in ast.walk(function):
            if isinstance(n, ast.Assert) and isinstance(n.test, ast.Compare):
                self.compared |= {x.id for x in [n.test.left] + n.test.comparators if isinstance(x, ast.Name)}
            elif isinstance(n, ast.Call):
                self.at = self.lines.get(n, [0, 0])
                self.raises(n)
        self.at = [0, 0]
        for d in function.decorator_list:
            if isinstance(d, ast.Call) and isinstance(d.func, ast.Attribute) and d.func.attr == "parametrize" and len(d.args) >= 2:
                self.at = whole
                self.table(d)
        self.at = [0, 0]

    def raises(self, n):
        name = n.func.attr if isinstance(n.func, ast.Attribute) else n.func.id if isinstance(n.func, ast.Name) else ""
        if name != "raises" or not n.args or any(isinstance(a, ast.Starred) for a in n.args):
            return
        self.other_exceptions(n.args[0])
        match = next((k.value for k in n.keywords if k.arg == "match"), None)
        if match is not None:
            start, stop = self.source.span(match)
            self.add(self.changed, "other content is expected", self.edit(start, stop, self.phrase(), match))
        elif len(n.args) == 1:
            stop = self.source.span(n.args[0])[1]
            for _ in range(2):
                self.add(self.changed, "other words of the exception are expected", self.edit(stop, stop, ", match=" + self.phrase()))

    def table(self, d):
        """Falsify each case of a parametrized test, twice over by other draws."""
        names = d.args[0]
        if isinstance(names, ast.Constant) and isinstance(names.value, str):
            names = [x.strip() for x in names.value.split(",")]
        elif isinstance(names, (ast.Tuple, ast.List)):
            names = [getattr(x, "value", "") for x in names.elts]
        else:
            return
        if not isinstance(d.args[1], (ast.List, ast.Tuple)):
            return
        likely = [i for i, x in enumerate(names) if x in self.compared or re.search("expect|want|result|output|valid|^out$|^res$", str(x))]
        column = likely[-1] if likely else len(names) - 1
        for _ in range(3):
            edits = []
            for row in d.args[1].elts:
                if isinstance(row, ast.Call) and row.args:  # pytest.param
                    cells = row.args
                elif len(names) > 1 and isinstance(row, (ast.Tuple, ast.List)):
                    cells = row.elts
                else:
                    cells = [row]
                if column < len(cells):
                    found = []
                    self.constants(cells[column], found, "")
                    if found:
                        edits.extend(found[0]["edits"])
            if edits:
                self.add(self.changed, "another value is expected in each case", *edits)

    def mark(self, function, number):
        """The edit that tells of the body's begin, if there is a place for it."""
        call, s = '__import__("os").write(198, b"begin %d\\n")' % number, function.body[0]
        while isinstance(s, ast.Try):
            s = s.body[0]
        if isinstance(s, (ast.With, ast.For, ast.If)):
            x = s.items[0].context_expr if isinstance(s, ast.With) else s.iter if isinstance(s, ast.For) else s.test
            start, stop = self.source.span(x)
            return [self.edit(start, start, "(%s, " % call), self.edit(stop, stop, ")[1]")]
        if isinstance(s, (ast.While, ast.AsyncWith, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or s.__class__.__name__ == "Match":
            return []
        start = self.source.span(s)[0]
        return [self.edit(start, start, call + "; ")]


def test_functions(tree):
    """Map "Class::test" and "test" to their definitions."""
    out = {}

    def walk(body, prefix):
        for n in body:
            if isinstance(n, ast.ClassDef):
                walk(n.body, prefix + n.name + "::")
            elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
                out[prefix + n.name] = n
            elif isinstance(n, (ast.If, ast.Try)):
                walk(n.body, prefix)
                walk(n.orelse, prefix)

    walk(tree.body, "")
    return out


def draw_pytest(spec):
    sources = {}
    for rel, data in spec["files"].items():
        data = base64.b64decode(data)
        try:
            tree = ast.parse(data, rel)
            data.decode()
        except (SyntaxError, ValueError, RecursionError):
            continue
        if not data.startswith(b"\xef\xbb\xbf"):
            own = {m for _, methods in bases_of(tree).values() for m in methods}
            sources[rel] = (Source(data, tree), test_functions(tree), own)
    out = []
    for number, unit in enumerate(spec["units"]):
        rel, _, name = unit.partition("::")
        found = {"body": unit, "file": "", "twins": []}
        source, defs, own = sources.get(rel, (None, {}, ()))
        if name in defs and len(source.starts) > 1:
            drawer = PytestDrawer(source, defs[name], own, random.Random("%s %s" % (spec["draw"], unit)))
            found.update(file=rel, twins=drawer.twins(spec["twins"]), mark=drawer.mark(defs[name], number))
        out.append(found)
    hand_over(out)
    return 0


def draw_main():
    try:
        spec = json.loads(sys.stdin.buffer.read())
        return draw_pytest(spec) if "units" in spec else draw_twins(spec)
    except SystemExit as e:
        sys.stderr.write(str(e))
    except BaseException as e:
        sys.stderr.write("%s: %s" % (type(e).__name__, e))
    return 2


sys.exit(draw_main())
