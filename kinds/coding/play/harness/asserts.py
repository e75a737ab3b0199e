"""What test files call instead of TestCase's methods. See grade.py, which hands every name in here over as a constant.

They keep to syntax and to names that are constants of their code, and end every failure with a raise statement: whoever
sees one of their frames can still not make a comparison that failed go on. Names that are not defined here: re_search,
randbelow, ALLOW_ANY (the tests use mock.ANY) and ANY (its type).
"""

def shown(value):
    try:
        text = repr(value)
    except Exception:
        return object.__repr__(value)
    return text if len(text) < 400 else text[:400] + "..."

PLAIN = frozenset([int, float, complex, bool, str, bytes, bytearray, type(None), list, tuple, dict, set, frozenset])

def decoys(value):
    t = type(value)
    if t is bool or value is None:
        return [object(), "agon", 3.25]
    if t in (int, float, complex):
        return [value + 1, value - 1, value + 1024, object()]
    if t is str:
        return [value + "x", "x" + value, value + " agon", object()]
    if t in (bytes, bytearray):
        return [value + b"x", b"x" + value, object()]
    if t in (list, tuple):
        return [value + t([object()]), t([object()]), object()]
    if t is dict:
        return [dict(value, agon=object()), {"agon": object()}, object()]
    return [t([object()]), object()]

def claims(odd, one, flip):
    try:
        return True if (odd == one if flip else one == odd) else False
    except Exception:
        return False

def same(a, b, depth=0):
    """a == b, but an object that claims to equal everything is unmasked: in a row of strangers it may know one."""
    ta, tb = type(a), type(b)
    if ta in PLAIN and ta is tb and depth < 50:
        if ta is list or ta is tuple:
            return len(a) == len(b) and all([x is y or same(x, y, depth + 1) for x, y in zip(a, b)])
        if ta is dict:
            return len(a) == len(b) and all([k in b and (a[k] is b[k] or same(a[k], b[k], depth + 1)) for k in a])
        return a == b
    if ta in PLAIN and tb in PLAIN:
        return a == b
    if ta in PLAIN or tb in PLAIN:
        odd, plain, flip = (b, a, False) if ta in PLAIN else (a, b, True)
        row = decoys(plain)
        if not (ALLOW_ANY and type(odd) is ANY):
            row.insert(randbelow(len(row) + 1), plain)
            for one in row:
                if one is not plain and claims(odd, one, flip):
                    raise AssertionError("%s says that it equals %s" % (object.__repr__(odd), shown(one)))
    return True if a == b else False

def assertEqual(first, second, msg=None):
    if not same(first, second):
        raise AssertionError("%s != %s%s" % (shown(first), shown(second), "" if msg is None else " : %s" % (msg,)))

def typed(kind):
    def check(first, second, msg=None):
        if not isinstance(first, kind) or not isinstance(second, kind):
            raise AssertionError("%s and %s are not both %s" % (shown(first), shown(second), kind.__name__))
        if not same(first, second):
            raise AssertionError("%s != %s%s" % (shown(first), shown(second), "" if msg is None else " : %s" % (msg,)))
    return check

assertListEqual, assertTupleEqual, assertDictEqual, assertMultiLineEqual = typed(list), typed(tuple), typed(dict), typed(str)
assertSetEqual = typed((set, frozenset))

def assertSequenceEqual(first, second, msg=None, seq_type=None):
    if seq_type is not None and not (isinstance(first, seq_type) and isinstance(second, seq_type)):
        raise AssertionError("%s and %s are not both %s" % (shown(first), shown(second), seq_type.__name__))
    if not same(list(first), list(second)):
        raise AssertionError("%s != %s" % (shown(first), shown(second)))

def assertNotEqual(first, second, msg=None):
    if not first != second:
        raise AssertionError("%s == %s" % (shown(first), shown(second)))

def assertTrue(expr, msg=None):
    if not expr:
        raise AssertionError("%s is not true%s" % (shown(expr), "" if msg is None else " : %s" % (msg,)))

def assertFalse(expr, msg=None):
    if expr:
        raise AssertionError("%s is not false%s" % (shown(expr), "" if msg is None else " : %s" % (msg,)))

def assertIs(a, b, msg=None):
    if a is not b:
        raise AssertionError("%s is not %s" % (shown(a), shown(b)))

def assertIsNot(a, b, msg=None):
    if a is b:
        raise AssertionError("unexpectedly identical: %s" % shown(a))

def assertIsNone(a, msg=None):
    if a is not None:
        raise AssertionError("%s is not None" % shown(a))

def assertIsNotNone(a, msg=None):
    if a is None:
        raise AssertionError("unexpectedly None")

def assertIn(member, container, msg=None):
    if type(container) not in PLAIN and object() in container:
        raise AssertionError("%s says that it holds everything" % object.__repr__(container))
    if not member in container:
        raise AssertionError("%s not found in %s" % (shown(member), shown(container)))

def assertNotIn(member, container, msg=None):
    if member in container:
        raise AssertionError("%s unexpectedly found in %s" % (shown(member), shown(container)))

def assertIsInstance(obj, cls, msg=None):
    if not isinstance(obj, cls):
        raise AssertionError("%s is not an instance of %s" % (shown(obj), shown(cls)))

def assertNotIsInstance(obj, cls, msg=None):
    if isinstance(obj, cls):
        raise AssertionError("%s is an instance of %s" % (shown(obj), shown(cls)))

def assertLess(a, b, msg=None):
    if not a < b:
        raise AssertionError("%s not less than %s" % (shown(a), shown(b)))

def assertLessEqual(a, b, msg=None):
    if not a <= b:
        raise AssertionError("%s not less than or equal to %s" % (shown(a), shown(b)))

def assertGreater(a, b, msg=None):
    if not a > b:
        raise AssertionError("%s not greater than %s" % (shown(a), shown(b)))

def assertGreaterEqual(a, b, msg=None):
    if not a >= b:
        raise AssertionError("%s not greater than or equal to %s" % (shown(a), shown(b)))

def fail(msg=None):
    raise AssertionError(msg)

def near(first, second, places, delta):
    if first == second:
        return same(first, second)
    if delta is not None:
        return abs(first - second) <= delta
    return round(abs(first - second), 7 if places is None else places) == 0

def assertAlmostEqual(first, second, places=None, msg=None, delta=None):
    if not near(first, second, places, delta):
        raise AssertionError("%s != %s (nearly)" % (shown(first), shown(second)))

def assertNotAlmostEqual(first, second, places=None, msg=None, delta=None):
    if first == second or near(first, second, places, delta):
        raise AssertionError("%s == %s (nearly)" % (shown(first), shown(second)))

def assertCountEqual(first, second, msg=None):
    rest = list(second)
    for x in list(first):
        for i, y in enumerate(rest):
            if x is y or same(x, y):
                del rest[i]
                break
        else:
            raise AssertionError("%s is not expected" % shown(x))
    if rest:
        raise AssertionError("missing: %s" % shown(rest))

def assertRegex(text, expected_regex, msg=None):
    if not isinstance(text, (str, bytes)) or not re_search(expected_regex, text):
        raise AssertionError("%s does not match %s" % (shown(text), shown(expected_regex)))

def assertNotRegex(text, unexpected_regex, msg=None):
    if re_search(unexpected_regex, text):
        raise AssertionError("%s matches %s" % (shown(text), shown(unexpected_regex)))

ESCAPED = []  # exceptions that left a block which expects another one: a test fails by that as by an assertion

def raises(expected, regex, args, kwargs):
    class Raises:  # a class of its own, so that no other block's exit can be replaced through it
        exception = None
        def __enter__(self):
            return self
        def __exit__(self, kind, value, tb):
            if kind is None:
                raise AssertionError("%s not raised" % shown(expected))
            if not issubclass(kind, expected):
                ESCAPED.append(value)
                return False
            if regex is not None and not re_search(regex, str(value)):
                raise AssertionError("%s does not match %s" % (shown(str(value)), shown(regex)))
            self.exception = value.with_traceback(None)
            return True
    context = Raises()
    if not args:
        return context
    with context:
        args[0](*args[1:], **kwargs)

def assertRaises(expected_exception, *args, **kwargs):
    return raises(expected_exception, None, args, kwargs)

def assertRaisesRegex(expected_exception, expected_regex, *args, **kwargs):
    return raises(expected_exception, expected_regex, args, kwargs)

def subTest(msg=None, **params):
    class Plain:  # a failure in a subtest ends the test
        def __enter__(self):
            return self
        def __exit__(self, kind, value, tb):
            return False
    return Plain()
