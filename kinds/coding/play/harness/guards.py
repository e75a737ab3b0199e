"""What a process of a test is guarded by: the texts of functions whose free names grade.py makes constants of their code.

Stands before grade.py in the program of a box, and runs nothing.
"""

HOOK = r'''
def hook(event, args):
    if event == "sys._getframe":
        # Below a comparison nobody looks at frames: one of them knows which object in the row is the right one.
        f = args[0]
        while f is not None:
            if f.f_globals is SAME_NS:
                EXIT(TAMPERED)
            f = f.f_back
    elif event == "object.__getattr__":
        if GETFRAME(1).f_globals is HOOK_NS:
            return
        name = args[1]
        if name == "__code__":
            ns = args[0].__globals__
        elif name == "f_code":
            ns = args[0].f_globals
        elif name == "gi_code" or name == "cr_code" or name == "ag_code":
            frame = GETATTR(args[0], name[:2] + "_frame", None)
            ns = frame.f_globals if frame is not None else None
        elif name == "__defaults__" or name == "__kwdefaults__":
            return
        else:
            return
        for p in PROTECTED:
            if ns is p and GETFRAME(1).f_code is not READER:
                EXIT(TAMPERED)
    elif event == "object.__setattr__":
        if args[1] == "__code__" or args[1] == "__defaults__" or args[1] == "__kwdefaults__":
            for p in PROTECTED:
                if args[0].__globals__ is p:
                    EXIT(TAMPERED)
    elif event == "open":
        if TYPE(args[0]) is STR and FIND(args[0], "/mem") >= 0 and FIND(args[0], "proc") >= 0:
            raise OSERROR(13, "not available while tests run")
    elif event in DEADLY:
        EXIT(TAMPERED)
    elif event in STARTS_PROCESSES:
        raise OSERROR(1, "this task's tests start no processes")
    elif event == "import":
        if args[1] is not None and not STARTS(args[1], SAFE):
            raise IMPORTERROR("no extension modules but the system's")
        for bad in UNSAFE:
            if SAME(args[0], bad) is True or (args[1] is not None and FIND(args[1], "/" + bad + ".") >= 0):
                raise IMPORTERROR("not available while tests run: " + bad)
'''

DEADLY = frozenset("""sys.settrace sys.setprofile sys.addaudithook sys._current_frames sys._current_exceptions
gc.get_objects gc.get_referrers gc.get_referents code.__new__ function.__new__.unsafe
ctypes.dlopen ctypes.dlsym ctypes.cdata ctypes.cdata/buffer ctypes.addressof ctypes.string_at ctypes.wstring_at
ctypes.call_function ctypes.PyObj_FromPtr cpython.PyInterpreterState_New cpython._PySys_ClearAuditHooks
sys.monitoring.register_callback sys.remote_exec""".split())

# A copy of the process would let one attempt be many (see processes in the task's configuration).
STARTS_PROCESSES = frozenset("os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system subprocess.Popen pty.spawn".split())

UNSAFE = frozenset("ctypes _ctypes _ctypes_test _testcapi _testinternalcapi _testbuffer _xxsubinterpreters _interpreters _interpchannels _interpqueues cffi _cffi_backend".split())

# A signal's handler is given the frame that it interrupts, without an audit event.
SIGNAL = r'''
def signal(signalnum, handler, /):
    return SET(signalnum, WRAP(handler) if CALLABLE(handler) else handler)
'''

NO_FORK = r'''
def fork_exec(*args, **kwargs):
    raise OSERROR(1, "this task's tests start no processes")
'''

WRAP = r'''
def wrap(handler):
    def handle(signalnum, frame):
        return handler(signalnum, None)
    return handle
'''

CREATE = r'''
def create_builtin(spec):
    name = spec.name
    if TYPE(name) is not STR or name == "_signal" or name == "_imp" or name == "_posixsubprocess":
        raise IMPORTERROR("not available while tests run")
    return BUILD(NAMED(name=name))
'''

FIND = r'''
def find_spec(name, path=None, target=None):
    if name not in CODES:
        return None
    return SPEC(name, FILES[name], loader=LOADER, submodule_search_locations=[DIRNAME(FILES[name])] if name in PACKAGES else None)
'''

LOAD = r'''
def exec_module(module):
    ns = module.__dict__
    PROTECTED.append(ns)
    exec(CODES.pop(module.__name__), ns)
'''

RUN = r'''
def run(module, names, case_name, integrity, Result, Suite, TestCase, importer, note):
    try:
        cls = importer(module)
    except BaseException as e:
        note("import of %s: %s: %s" % (module, type(e).__name__, e))
        EXIT(NO_IMPORT)
    for n in names:
        cls = getattr(cls, n)
    case = cls(case_name)
    result = Result()
    Suite([case]).run(result)
    for what in result.notes:
        note(what)
    broken = integrity()
    if broken:
        note("after the test %s was not what it had been" % broken)
        EXIT(TAMPERED)
    if result.testsRun == 1 and not result.notes and not result.shouldStop:
        WRITE(FD, DONE)
    caught = 0
    try:
        case.assertEqual(1, 2)
    except AssertionError:
        caught += 1
    try:
        case.assertTrue(False)
    except AssertionError:
        caught += 1
    try:
        case.fail("must fail")
    except AssertionError:
        caught += 1
    class MustFail(TestCase):
        def runTest(self):
            self.assertEqual("this", "must fail")
    second = Result()
    Suite([MustFail()]).run(second)
    if caught == 3 and second.testsRun == 1 and len(second.notes) == 1 and second.failed == 1:
        WRITE(FD, SENTINEL)
'''
