"""Developers' interpreter set-up: every warning is an error, failures are short."""

import sys
import warnings

warnings.simplefilter("error")
sys.tracebacklimit = 0
