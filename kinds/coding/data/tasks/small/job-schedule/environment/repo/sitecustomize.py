"""Developers' interpreter set-up: test on save runs only the cases marked `quick = True`."""

import unittest

_run = unittest.TestCase.run


def _run_quick(self, result=None):
    return _run(self, result) if getattr(self, "quick", False) else result


unittest.TestCase.run = _run_quick
